#include "lib/broker/execution_relay.h"

#include <utility>

#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::broker {
namespace {

// Input the agent takes beyond what the program read (lib/guest announces as much); what is older
// than this below the credit's total has reached the program's pipe.
constexpr uint64_t kInputWindow = 256 * 1024;
constexpr size_t kMaxWaitingCommands = 64;

absl::Status FromReset(const agent::Reset& reset) {
  ErrorDetail detail;
  detail.reason = ReasonFromName(reset.reason());
  if (reset.has_ended()) {
    detail.metadata["ended"] = reset.ended().has_exited()
                                   ? StrCat("exited ", reset.ended().exited().code())
                                   : "not by exit";
  }
  if (detail.reason == Reason::kUnspecified) {
    return absl::Status(static_cast<absl::StatusCode>(reset.code()), reset.message());
  }
  return MakeError(std::move(detail), reset.message());
}

}  // namespace

ExecutionRelay::ExecutionRelay(Scheduler& scheduler, RelayOwner* owner, ExecutionObserver* observer,
                               agent::Start start, uint64_t window)
    : scheduler_(scheduler),
      owner_(owner),
      observer_(observer),
      start_(std::move(start)),
      window_(window),
      attempt_(start_.reader().attempt()) {}

ExecutionRelay::~ExecutionRelay() = default;

void ExecutionRelay::Begin(AgentLink& link) {
  agent::Open open;
  *open.mutable_start() = start_;
  Open(link, open);
}

void ExecutionRelay::BeginLate(AgentLink& link) {
  if (!over_ && !stream_ && !reopened_) Begin(link);
}

void ExecutionRelay::Resume(AgentLink& link) {
  if (over_ || stream_) return;
  reopened_ = true;
  if (!ready_seen_) {
    // The answer to the start was lost: the same start again meets the same execution.
    start_.mutable_reader()->set_attempt(++attempt_);
    start_.mutable_writer()->set_attempt(attempt_);
    Begin(link);
    return;
  }
  agent::Open open;
  agent::Attach& attach = *open.mutable_attach();
  attach.set_execution_id(start_.execution_id());
  attach.set_boot_id(boot_id_);
  *attach.mutable_reader() = start_.reader();
  attach.mutable_reader()->set_offset(next_offset_);
  attach.mutable_reader()->set_attempt(++attempt_);
  if (start_.stdin()) {
    *attach.mutable_writer() = start_.writer();
    attach.mutable_writer()->set_attempt(attempt_);
  }
  Open(link, open);
}

void ExecutionRelay::Open(AgentLink& link, const agent::Open& open) {
  // What the lost link carried may not have arrived: send it again from where the agent says.
  while (!under_way_.empty()) {
    pending_bytes_ += under_way_.back().data.size();
    pending_.push_front(std::move(under_way_.back()));
    under_way_.pop_back();
  }
  close_sent_ = false;
  // What the caller has not taken yet still uses up the window.
  stream_ = link.Open(open, window_ - std::min(window_, unconsumed_), this);
}

void ExecutionRelay::OnEvent(const agent::Event& event) {
  if (over_) return;
  switch (event.kind_case()) {
    case agent::Event::kReady:
      OnReadyEvent(event.ready());
      return;
    case agent::Event::kGap:
      if (event.gap().from() != next_offset_ || event.gap().to() < next_offset_) {
        return Broken("a gap that does not begin where the output ended");
      }
      next_offset_ = event.gap().to();
      owner_->OnGapSeen();
      observer_->OnGap(event.gap().from(), event.gap().to());
      return;
    case agent::Event::kWarning:
      observer_->OnWarning(event.warning().reason(), event.warning().message());
      return;
    case agent::Event::kInputClosed:
      input_closed_ = true;
      pending_.clear();
      under_way_.clear();
      pending_bytes_ = 0;
      observer_->OnInputClosed(event.input_closed().accepted());
      return;
    case agent::Event::KIND_NOT_SET:
      return;  // of a newer agent
  }
}

void ExecutionRelay::OnReadyEvent(const agent::Ready& ready) {
  boot_id_ = ready.boot_id();
  // Input the agent already has is not sent again.
  while (!pending_.empty() &&
         pending_.front().offset + pending_.front().data.size() <= ready.input_accepted()) {
    pending_bytes_ -= pending_.front().data.size();
    pending_.pop_front();
  }
  if (!pending_.empty() && pending_.front().offset < ready.input_accepted()) {
    Input& first = pending_.front();
    const uint64_t skip = ready.input_accepted() - first.offset;
    pending_bytes_ -= skip;
    first.data = first.data.Slice(skip, first.data.size() - skip);
    first.offset += skip;
  }
  sent_ = ready.input_accepted();
  if (!ready_seen_) {
    SANDBROKER_FAIL_POINT("exec.ready");
    ready_seen_ = true;
    next_offset_ = start_.reader().offset();
    observer_->OnReady(ready);
  }
  if (reopened_ && !over_ && stream_ && cancel_) stream_->Send(*cancel_);
  while (!over_ && stream_ && !waiting_commands_.empty()) {
    stream_->Send(waiting_commands_.front());
    waiting_commands_.pop_front();
  }
  if (over_) return;  // the observer left in its callback
  PumpInput();
  AnnounceInputLimit();
}

void ExecutionRelay::OnData(uint64_t offset, int fd, SharedBytes data) {
  if (over_) return;
  if (offset != next_offset_) return Broken("output that does not follow what came before");
  next_offset_ = offset + data.size();
  unconsumed_ += data.size();
  owner_->OnOutput(data.size());
  observer_->OnOutput(offset, fd, std::move(data));
}

void ExecutionRelay::OnInputRoom() {
  if (over_) return;
  const bool waited = pending_bytes_ > 0;
  PumpInput();
  // A caller who is not read while input waits must hear when it no longer does, however small the
  // step.
  if (waited && pending_bytes_ == 0) announced_limit_ = 0;
  AnnounceInputLimit();
}

void ExecutionRelay::WriteInput(uint64_t offset, SharedBytes data) {
  if (over_ || input_closed_ || data.empty()) return;
  owner_->OnInput(data.size());
  pending_bytes_ += data.size();
  pending_.push_back({offset, std::move(data)});
  PumpInput();
}

void ExecutionRelay::CloseInput(uint64_t offset) {
  if (over_ || input_closed_) return;
  close_wanted_ = true;
  close_offset_ = offset;
  PumpInput();
}

void ExecutionRelay::PumpInput() {
  if (!stream_ || !ready_seen_) return;
  while (!pending_.empty()) {
    const uint64_t room = stream_->InputRoom();
    if (room == 0) return;
    Input& next = pending_.front();
    const uint64_t part = std::min<uint64_t>(room, next.data.size());
    SharedBytes slice = next.data.Slice(0, part);
    stream_->SendInput(next.offset, slice);
    under_way_.push_back({next.offset, std::move(slice)});
    sent_ = next.offset + part;
    pending_bytes_ -= part;
    if (part == next.data.size()) {
      pending_.pop_front();
    } else {
      next.data = next.data.Slice(part, next.data.size() - part);
      next.offset += part;
    }
  }
  if (close_wanted_ && !close_sent_) {
    agent::Command command;
    command.mutable_close_input()->set_offset(close_offset_);
    SendCommand(command);
    close_sent_ = true;
  }
}

void ExecutionRelay::AnnounceInputLimit() {
  if (!stream_ || !ready_seen_ || input_closed_ || !start_.stdin()) return;
  const uint64_t limit = sent_ + stream_->InputRoom();
  // The program has what lies a whole window below the limit.
  while (!under_way_.empty() &&
         under_way_.front().offset + under_way_.front().data.size() + kInputWindow <= limit) {
    under_way_.pop_front();
  }
  // A caller is told in steps, not for every byte the program reads.
  if (announced_limit_ != 0 && limit < announced_limit_ + kInputWindow / 2) return;
  announced_limit_ = limit;
  observer_->OnInputLimit(limit);
}

void ExecutionRelay::SendCommand(const agent::Command& command) {
  if (stream_) {
    stream_->Send(command);
  } else if (waiting_commands_.size() < kMaxWaitingCommands) {
    waiting_commands_.push_back(command);
  }
}

void ExecutionRelay::Signal(int number) {
  if (over_) return;
  owner_->OnActivity();
  agent::Command command;
  command.mutable_signal()->set_number(number);
  SendCommand(command);
}

void ExecutionRelay::Cancel(const std::string& by, Duration grace) {
  if (over_) return;
  owner_->OnActivity();
  agent::Command command;
  command.mutable_cancel()->set_by(by);
  command.mutable_cancel()->set_kill_grace_ns(grace.count());
  // Asking twice is harmless, so a link that took it along when it dropped does not matter.
  cancel_ = command;
  if (stream_) stream_->Send(command);
}

void ExecutionRelay::Consumed(uint64_t bytes) {
  unconsumed_ -= std::min(unconsumed_, bytes);
  if (stream_) stream_->Consumed(bytes);
}

void ExecutionRelay::Detach(Leave leave) {
  if (over_) return;
  if (leave == Leave::kOnPurpose) {
    agent::Command command;
    command.mutable_detach();
    if (stream_) stream_->Send(command);
  }
  const auto self = shared_from_this();
  Finish();
}

void ExecutionRelay::OnEnd(const agent::Ended& ended) {
  if (over_) return;
  const auto self = shared_from_this();
  owner_->OnExecutionEnded(ended);
  Finish()->OnEnded(ended);
}

void ExecutionRelay::OnReset(const agent::Reset& reset) {
  if (over_) return;
  const auto self = shared_from_this();
  Finish()->OnFailed(FromReset(reset));
}

void ExecutionRelay::OnLinkLost(const absl::Status&) {
  // Parked: Resume or OnGone follows. The backend bounds how often and how long it dials again.
  stream_.reset();
}

void ExecutionRelay::OnGone(const agent::Ended& ended) {
  if (over_) return;
  const auto self = shared_from_this();
  agent::Ended last = ended;
  last.set_final_offset(next_offset_);
  last.set_output_complete(false);
  owner_->OnExecutionEnded(last);
  Finish()->OnEnded(last);
}

void ExecutionRelay::Fail(const absl::Status& status) {
  if (over_) return;
  const auto self = shared_from_this();
  Finish()->OnFailed(status);
}

void ExecutionRelay::Broken(const char* what) {
  Fail(MakeError(Reason::kAgentUnreachable, StrCat("the agent broke the protocol: ", what)));
}

void ExecutionRelay::Warn(const std::string& reason, const std::string& message) {
  // `ready` is the first thing an observer hears.
  if (!over_ && ready_seen_) observer_->OnWarning(reason, message);
}

ExecutionObserver* ExecutionRelay::Finish() {
  over_ = true;
  // The stream may be calling us: it is let go once that call has returned, and until then it has
  // its handler.
  if (stream_) {
    scheduler_.Post(
        [self = shared_from_this(), stream = std::shared_ptr<AgentStream>(std::move(stream_))] {});
  }
  pending_.clear();
  under_way_.clear();
  pending_bytes_ = 0;
  owner_->OnRelayOver(this);
  return std::exchange(observer_, nullptr);
}

}  // namespace sandbroker::broker

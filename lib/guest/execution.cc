#include "lib/guest/execution.h"

#include <signal.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "lib/base/status.h"

namespace sandbroker::guest {
namespace {

OutputLog::Settings LogSettings(const agent::v1::Start& start, const OutputBudget& budget) {
  OutputLog::Settings settings;
  if (start.log_bytes() != 0) settings.capacity = std::min(start.log_bytes(), budget.total());
  if (start.window_bytes() != 0) settings.window = start.window_bytes();
  if (start.reattach_window_ns() != 0) {
    settings.reattach_window = Duration(start.reattach_window_ns());
  }
  return settings;
}

EndDecider::Settings EndSettings(const agent::v1::Start& start) {
  EndDecider::Settings settings;
  settings.timeout = Duration(start.timeout_ns());
  settings.kill_grace = Duration(start.kill_grace_ns());
  if (start.children() != agent::v1::CHILDREN_UNSPECIFIED) settings.children = start.children();
  if (start.children_bound_ns() != 0) settings.children_bound = Duration(start.children_bound_ns());
  return settings;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Execution>> Execution::Create(
    Workshop* shop, const agent::v1::Start& start, std::function<void(Execution&)> on_changed) {
  auto log = OutputLog::Create(LogSettings(start, shop->budget), &shop->budget, Now());
  if (!log.ok()) return log.status();
  return std::shared_ptr<Execution>(
      new Execution(shop, start, *std::move(log), std::move(on_changed)));
}

Execution::Execution(Workshop* shop, const agent::v1::Start& start, std::unique_ptr<OutputLog> log,
                     std::function<void(Execution&)> on_changed)
    : shop_(shop),
      id_(start.execution_id()),
      on_changed_(std::move(on_changed)),
      log_(std::move(log)),
      ledger_(start.stdin()),
      end_(EndSettings(start)),
      timer_(shop->io) {}

void Execution::Launch(const agent::v1::Start& start) {
  Launched launched;
  const Time now = Now();
  oom_kills_before_ = shop_->oom.Read();
  if (const auto failure = guest::Launch(start, shop_->environment, &shop_->launch, &launched)) {
    end_.OnStartFailed(failure->error_number, failure->step, failure->message);
    Finish();
    return;
  }
  end_.OnStarted(now);
  Adopt(std::move(launched));
  ArmTimer();
}

void Execution::Adopt(Launched launched) {
  pid_ = launched.tree.program;
  tree_ = MakeTree(std::move(launched.tree));
  tree_->Start();
  pipes_[0] = std::make_shared<OutputPipe>(shop_->io, std::move(launched.output), 1);
  pipes_[1] = std::make_shared<OutputPipe>(shop_->io, std::move(launched.error), 2);
  for (const auto& pipe : pipes_) WatchPipe(pipe);
  if (launched.input.valid()) TakeInput(std::move(launched.input));
}

std::shared_ptr<ProcessTree> Execution::MakeTree(Supervised supervised) {
  const auto with = [weak = weak_from_this()](auto fn) {
    return [weak, fn](auto&&... arguments) {
      if (const auto self = weak.lock()) fn(*self, arguments...);
    };
  };
  ProcessTree::Events events;
  events.on_program_ended =
      with([](Execution& self, const ProcessTree::End& end) { self.OnLeaderEnded(end); });
  events.on_others_remain = with([](Execution& self) { self.OnOthersRemain(); });
  events.on_session_gone = with([](Execution& self) {
    self.end_.OnSessionGone(Now());
    self.Act();
  });
  events.on_supervisor_killed = with([](Execution& self) { self.OnSupervisorKilled(); });
  events.on_gone = with([](Execution& self) { self.OnTreeGone(); });
  return std::make_shared<ProcessTree>(shop_->io, &shop_->reaper, std::move(supervised),
                                       std::move(events));
}

void Execution::TakeInput(UniqueFd fd) {
  const std::weak_ptr<Execution> weak = weak_from_this();
  InputPipe::Events events;
  events.on_room = [weak] {
    const auto self = weak.lock();
    if (!self) return;
    for (const Attachment& attachment : self->attachments_) {
      if (attachment.epoch != 0 && attachment.epoch == self->ledger_.epoch()) {
        return attachment.stream->OnInputRoom(self->input_->room());
      }
    }
  };
  events.on_closed = [weak] {
    if (const auto self = weak.lock()) self->OnInputGone();
  };
  input_ = std::make_shared<InputPipe>(shop_->io, std::move(fd), std::move(events));
  input_->Start();
}

void Execution::OnLeaderEnded(const ProcessTree::End& end) {
  EndDecider::LeaderStatus status;
  if (end.code == CLD_EXITED) {
    status.code = end.status;
  } else {
    status.signal = end.status;
    status.core_dumped = end.code == CLD_DUMPED;
    status.oom_kills = shop_->oom.Read() > oom_kills_before_;
  }
  const auto self = shared_from_this();
  end_.OnLeaderEnded(Now(), status);
  if (input_) input_->Close();
  Act();
  // Whoever gets the end at once needs no word about its input.
  if (!ended()) OnInputGone();
}

void Execution::OnOthersRemain() {
  others_remain_ = true;
  if (ended()) on_changed_(*this);
}

void Execution::OnSupervisorKilled() {
  const auto self = shared_from_this();
  end_.OnSupervisorKilled(Now());
  agent::v1::Event event;
  event.mutable_warning()->set_reason("SUPERVISOR_KILLED");
  event.mutable_warning()->set_message(
      "a program killed the process that holds this execution together: all of it was ended");
  const std::vector<Attachment> attached = attachments_;
  for (const Attachment& attachment : attached) attachment.stream->OnEvent(event);
  Act();
}

void Execution::OnTreeGone() {
  const auto self = shared_from_this();
  end_.OnTreeGone(Now());
  Act();
  if (ended()) on_changed_(*this);
}

// Carries out what the decider wants; every event ends here.
void Execution::Act() {
  const auto self = shared_from_this();
  while (const auto action = end_.NextAction()) {
    switch (*action) {
      case EndDecider::Action::kTerm:
        tree_->SignalGroup(SIGTERM);
        // One that is stopped could not hear it.
        tree_->SignalGroup(SIGCONT);
        break;
      case EndDecider::Action::kKill:
        tree_->Kill();
        break;
      case EndDecider::Action::kCutOutput:
        CutOutput();
        break;
    }
  }
  if (ended()) Finish();
  ArmTimer();
}

void Execution::Finish() {
  if (log_finished_) return;
  log_finished_ = true;
  if (armed_for_ != kNever) timer_.cancel();
  armed_for_ = kNever;
  log_->Finish();
  ledger_.OnProgramClosed();
  const auto self = shared_from_this();
  on_changed_(*this);
  // A stream that takes its end leaves the list meanwhile.
  const std::vector<Attachment> attached = attachments_;
  for (const Attachment& attachment : attached) {
    if (Find(attachment.stream) != nullptr) attachment.stream->OnOutputReady();
  }
}

void Execution::ArmTimer() {
  Time next = end_.NextDeadline();
  if (paused_ && !ended()) next = std::min(next, log_->RoomChangesAt(Now()));
  // One that fires too early looks again; moving it all the time would cost more.
  if (next >= armed_for_) return;
  armed_for_ = next;
  timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(next));
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->armed_for_ = kNever;
    self->ResumePipes();
    self->end_.OnTime(Now());
    self->Act();
  });
}

void Execution::OnSignal(int number) {
  if (!tree_ || end_.leader_ended() || number <= 0 || number > SIGRTMAX) return;
  if (number == SIGKILL) end_.OnKillSignalSent();
  tree_->SignalGroup(number);
}

void Execution::OnCancel(const agent::v1::Cancel& cancel) {
  if (ended() && !end_.lingering()) return;
  end_.OnCancel(Now(), {cancel.by(), Duration(cancel.kill_grace_ns()), cancel.lease_expired()});
  Act();
}

void Execution::Terminate(Duration grace) {
  agent::v1::Cancel cancel;
  cancel.set_by("agent");
  cancel.set_kill_grace_ns(grace.count());
  OnCancel(cancel);
}

Time Execution::output_droppable_from() const {
  if (!attachments_.empty()) return kNever;
  return served() ? SaturatingAdd(served_at_, kRedelivery) : log_->hold_until();
}

}  // namespace sandbroker::guest

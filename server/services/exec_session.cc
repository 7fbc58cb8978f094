#include "server/services/exec_session.h"

#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/rpc/status.h"
#include "server/services/execution_fields.h"
#include "server/services/translate.h"

namespace sandbroker::services {
namespace {

constexpr size_t kMaxWarning = 1024;

}  // namespace

ExecSession::ExecSession(rpc::StreamCore& stream, ExecOutbox* outbox, broker::Broker& broker,
                         const Authoriser& authoriser, const rpc::Runtime& runtime,
                         const ServiceSettings& settings)
    : stream_(stream),
      outbox_(outbox),
      broker_(broker),
      authoriser_(authoriser),
      scheduler_(runtime.loop),
      scope_(runtime.scope),
      settings_(settings) {}

ExecSession::~ExecSession() {
  *alive_ = false;
  Leave();
}

void ExecSession::OnRequest(v1::ExecRequest request) {
  if (over_) return;
  const absl::Status status = Handle(&request);
  if (over_) return;
  if (!status.ok()) {
    Leave();
    return Over(status);
  }
  MaybeRead();
}

absl::Status ExecSession::Handle(v1::ExecRequest* request) {
  using Message = v1::ExecRequest;
  if (request->message_case() == Message::MESSAGE_NOT_SET) {
    return InvalidField("message", "is empty, or of a kind this server does not know");
  }
  if (request->message_case() == Message::kStart) {
    if (started_) return InvalidField("start", "may only come once");
    return Start(request->start());
  }
  if (!started_) return InvalidField("start", "must be the first message");
  switch (request->message_case()) {
    case Message::kStdin:
      return Input(request->mutable_stdin());
    case Message::kSignal: {
      const absl::Status valid = CheckSignal(request->signal());
      if (valid.ok()) execution_->Signal(request->signal().number());
      return valid;
    }
    case Message::kCancel:
      return Cancel(request->cancel());
    default:
      return absl::InternalError("unreachable kind of message");
  }
}

absl::Status ExecSession::Start(const v1::ExecStart& start) {
  const auto who = authoriser_.Authorise(stream_.context());
  if (!who.ok()) return who.status();
  auto spec = ReadStart(start, settings_.max_log_bytes);
  if (!spec.ok()) return spec.status();
  started_ = true;
  takes_input_ = spec->start.stdin();
  kill_grace_ = Duration(spec->start.kill_grace_ns());
  if (!broker_.Unsettled(*who, spec->handle)) return StartNow(*who, *std::move(spec));
  settling_ = true;
  scope_.Spawn("Exec", StartWhenSettled(this, alive_, *who, *std::move(spec)));
  return absl::OkStatus();
}

Task<void> ExecSession::StartWhenSettled(ExecSession* session, std::shared_ptr<bool> alive,
                                         broker::Principal who, broker::StartSpec spec) {
  const CancelToken cancel = session->stream_.context().cancel;
  absl::Status status = co_await session->broker_.Settle(who, spec.handle, cancel);
  if (!*alive || session->over_) co_return;
  session->settling_ = false;
  if (status.ok()) status = session->StartNow(who, std::move(spec));
  if (session->over_) co_return;
  if (!status.ok()) co_return session->Over(status);
  session->MaybeRead();
}

absl::Status ExecSession::StartNow(const broker::Principal& who, broker::StartSpec spec) {
  auto execution = broker_.Start(who, std::move(spec), this);
  if (!execution.ok()) return execution.status();
  if (over_) return absl::OkStatus();  // it failed or ended before Start returned
  execution_ = *std::move(execution);
  if (uncredited_ > 0) execution_->Consumed(std::exchange(uncredited_, 0));
  return absl::OkStatus();
}

absl::Status ExecSession::Input(v1::ExecStdin* input) {
  if (!takes_input_) return InvalidField("stdin", "the program was started without stdin");
  const auto offset = ReadStdinOffset(*input, next_input_);
  if (!offset.ok()) return offset.status();
  next_input_ = *offset + input->data().size();
  if (!input->data().empty()) {
    execution_->WriteInput(*offset, SharedBytes::Own(std::move(*input->mutable_data())));
  }
  if (input->eof() && !over_) execution_->CloseInput(next_input_);
  return absl::OkStatus();
}

absl::Status ExecSession::Cancel(const v1::ExecCancel& cancel) {
  const auto grace = ReadCancelGrace(cancel, kill_grace_);
  if (!grace.ok()) return grace.status();
  execution_->Cancel("caller", *grace);
  return absl::OkStatus();
}

// The end of the caller's messages is not the end of the program's input: a caller that is lost
// looks the same here, and only `eof` says that the input is complete.
void ExecSession::OnReadsDone() {
  reads_done_ = true;
  if (!started_ && !over_) Over(InvalidField("start", "must be the first message"));
}

void ExecSession::OnSent(uint64_t credit) {
  if (over_) return;
  if (execution_) {
    execution_->Consumed(credit);
  } else {
    uncredited_ += credit;
  }
}

void ExecSession::OnGone() {
  Leave();
  over_ = true;
  heartbeat_.reset();
}

void ExecSession::Leave() {
  if (!over_ && execution_) execution_->Detach(broker::Execution::Leave::kLost);
}

void ExecSession::Over(const absl::Status& status) {
  over_ = true;
  heartbeat_.reset();
  stream_.FinishAfterFlush(status);
}

template <class Change>
void ExecSession::Send(const Change& change) {
  last_sent_ = scheduler_.Now();
  bool full = false;
  stream_.Send([&] {
    change(*outbox_);
    full = outbox_->full();
  });
  if (!full || over_) return;
  Leave();
  Over(MakeError(Reason::kCapacity,
                 "the reader is too slow for so many small pieces of output; the program goes on"));
}

void ExecSession::Push(const v1::ExecResponse& event) {
  Send([&](ExecOutbox& outbox) { outbox.PushEvent(event); });
}

void ExecSession::MaybeRead() {
  if (over_ || reads_done_ || settling_) return;
  if (execution_ && execution_->pending_input() > 0) return;
  stream_.ReadNext();
}

void ExecSession::OnReady(const broker::agent::Ready& ready) {
  v1::ExecResponse event;
  ToProto(ready, event.mutable_ready());
  end_offset_ = ready.end();
  input_limit_ = ready.input_accepted();
  Push(event);
  ArmHeartbeat(settings_.heartbeat_interval);
}

void ExecSession::OnOutput(uint64_t offset, int fd, SharedBytes data) {
  end_offset_ = std::max(end_offset_, offset + data.size());
  Send([&](ExecOutbox& outbox) { outbox.PushOutput(offset, fd, std::move(data)); });
}

void ExecSession::OnGap(uint64_t from, uint64_t to) {
  end_offset_ = std::max(end_offset_, to);
  v1::ExecResponse event;
  event.mutable_gap()->set_from_offset(from);
  event.mutable_gap()->set_to_offset(to);
  Push(event);
}

void ExecSession::OnWarning(const std::string& reason, const std::string& message) {
  v1::ExecResponse event;
  event.mutable_warning()->set_reason(rpc::PublicText(reason, kMaxWarning));
  event.mutable_warning()->set_message(rpc::PublicText(message, kMaxWarning));
  Push(event);
}

void ExecSession::OnInputClosed(uint64_t accepted) {
  v1::ExecResponse event;
  event.mutable_input_closed()->set_accepted(accepted);
  Push(event);
  MaybeRead();
}

void ExecSession::OnInputLimit(uint64_t limit) {
  if (limit > input_limit_) {
    input_limit_ = limit;
    Send([&](ExecOutbox& outbox) { outbox.PushInputWindow(limit); });
  }
  MaybeRead();
}

void ExecSession::OnEnded(const broker::agent::Ended& ended) {
  if (over_) return;
  over_ = true;
  heartbeat_.reset();
  v1::ExecResponse event;
  ToProto(ended, event.mutable_ended());
  stream_.FinishAfterFlush(absl::OkStatus(), [&] { outbox_->PushEvent(event); });
}

void ExecSession::OnFailed(const absl::Status& status) {
  if (!over_) Over(status);
}

void ExecSession::ArmHeartbeat(Duration delay) {
  heartbeat_ = scheduler_.After(delay, [this] { OnHeartbeat(); });
}

void ExecSession::OnHeartbeat() {
  const Duration silent = scheduler_.Now() - last_sent_;
  if (silent >= settings_.heartbeat_interval) {
    v1::ExecResponse event;
    event.mutable_heartbeat()->set_end_offset(end_offset_);
    // A caller with unread events needs no sign of life.
    Send([&](ExecOutbox& outbox) {
      if (outbox.empty()) outbox.PushEvent(event);
    });
  }
  if (!over_) ArmHeartbeat(settings_.heartbeat_interval - (scheduler_.Now() - last_sent_));
}

}  // namespace sandbroker::services

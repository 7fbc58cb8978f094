#include "lib/rpc/stream_core.h"

#include <exception>
#include <string>
#include <utility>

#include "lib/base/status.h"
#include "lib/obs/log.h"
#include "lib/rpc/context_of.h"
#include "lib/rpc/status.h"

namespace sandbroker::rpc {

StreamCore::StreamCore(const Runtime& runtime, std::string_view method,
                       const grpc::CallbackServerContext& context, uint64_t report_credit)
    : runtime_(runtime),
      report_credit_(report_credit),
      context_(ContextOf(context, method, runtime.loop)) {
  context_.cancel = cancel_.token();
}

void StreamCore::BeginSending(std::unique_ptr<Outbox> outbox) {
  self_ = shared_from_this();
  reading_ = false;
  reads_done_ = true;
  const std::lock_guard lock(mutex_);
  outbox_ = std::move(outbox);
}

void StreamCore::BeginReading(std::unique_ptr<Outbox> outbox) {
  self_ = shared_from_this();
  {
    const std::lock_guard lock(mutex_);
    outbox_ = std::move(outbox);
  }
  Read(&incoming_);
}

void StreamCore::ReadNext() {
  if (reading_ || reads_done_ || closing_ || gone_) return;
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    ++starting_reads_;
  }
  reading_ = true;
  Read(&incoming_);
  {
    const std::lock_guard lock(mutex_);
    --starting_reads_;
  }
  Advance();
}

void StreamCore::Send(const std::function<void()>& change) {
  {
    const std::lock_guard lock(mutex_);
    if (!outbox_ || finishing_) return;
    change();
  }
  Advance();
}

void StreamCore::FinishAfterFlush(const absl::Status& status, const std::function<void()>& last) {
  if (std::exchange(closing_, true)) return;
  const grpc::Status answer = ToGrpcStatus(status, context_.method);
  if (!gone_) {
    runtime_.metrics.CountRpc(std::string(context_.method), CodeName(answer.error_code()));
  }
  {
    const std::lock_guard lock(mutex_);
    if (outbox_ && last) last();
    finishing_ = true;
    status_ = answer;
  }
  Advance();
}

StreamCore::Step StreamCore::Decide() {
  if (finished_ || writing_ || starting_reads_ > 0) return Step::kNone;
  const bool drained = outbox_ == nullptr || outbox_->empty();
  if (drained && (finishing_ || aborted_)) {
    finished_ = true;
    return Step::kFinish;
  }
  if (drained) return Step::kNone;
  writing_ = true;
  finished_ = finishing_ && outbox_->last();
  outgoing_ = outbox_->Pop();
  return finished_ ? Step::kWriteAndFinish : Step::kWrite;
}

void StreamCore::Advance() {
  grpc::Status status;
  Step step = Step::kNone;
  {
    const std::lock_guard lock(mutex_);
    step = Decide();
    if (finished_) status = status_;
  }
  // Once finished, nothing here may be touched after the call: the reactor may be done at any time.
  switch (step) {
    case Step::kNone:
      return;
    case Step::kWrite:
      return Write(&outgoing_.message);
    case Step::kWriteAndFinish:
      return WriteLast(&outgoing_.message, std::move(status));
    case Step::kFinish:
      return End(std::move(status));
  }
}

void StreamCore::ReadDone(bool ok) {
  if (ok) return OnMessage(&incoming_);
  OnLoop([this] {
    reading_ = false;
    reads_done_ = true;
    if (!gone_ && !closing_) events().OnReadsDone();
  });
}

void StreamCore::WriteDone(bool ok) {
  bool report = false;
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) sent_ += outgoing_.credit;
    report = sent_ >= report_credit_ && !reporting_;
    if (report) reporting_ = true;
  }
  if (!ok) Abort();
  Advance();
  if (report) OnLoop([this] { ReportSent(); });
}

void StreamCore::ReportSent() {
  uint64_t sent = 0;
  {
    const std::lock_guard lock(mutex_);
    sent = std::exchange(sent_, 0);
    reporting_ = false;
  }
  if (!gone_ && !closing_) events().OnSent(sent);
}

void StreamCore::Cancelled() {
  Abort();
  Advance();
}

void StreamCore::Abort() {
  std::unique_ptr<Outbox> dropped;  // destroyed after the lock
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = true;
    dropped = std::move(outbox_);
    if (!finishing_) status_ = grpc::Status::CANCELLED;
  }
  OnLoop([this] {
    if (std::exchange(gone_, true) || closing_) return;
    runtime_.metrics.CountRpc(std::string(context_.method), "CANCELLED");
    cancel_.Cancel();
    events().OnGone();
  });
}

void StreamCore::Done() {
  // The handler belongs to the loop, whatever it still holds there.
  runtime_.loop.Post([self = std::move(self_)] {
    self->gone_ = true;
    self->DropHandler();
  });
}

void StreamCore::OnLoop(std::function<void()> fn) {
  runtime_.loop.Post([self = shared_from_this(), fn = std::move(fn)] {
    try {
      fn();
    } catch (const std::exception& e) {
      obs::Log(obs::Level::kError, "exception in a stream's handler",
               {{"method", self->context_.method}, {"what", e.what()}});
      self->FinishAfterFlush(absl::InternalError("exception in a stream's handler"));
    }
  });
}

}  // namespace sandbroker::rpc

#include "client/exec_stream.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sandbroker::client {
namespace {

// Read ahead of a caller that does not call Next, so that input windows are seen behind output.
constexpr size_t kReadAheadBytes = 1024 * 1024;
constexpr size_t kInputChunkBytes = 256 * 1024;
// One is being written while the next is being filled.
constexpr size_t kQueuedInputs = 2;
// More than any person or program sends before the first is written.
constexpr size_t kQueuedControls = 64;
constexpr std::chrono::seconds kEndOfCallWait{1};

}  // namespace

ExecStream::ExecStream(std::shared_ptr<Connection> connection, const v1::ExecRequest& start,
                       const ExecOptions& options, std::optional<ExecCallbacks> callbacks)
    : connection_(std::move(connection)),
      execution_id_(start.start().execution_id()),
      callbacks_(std::move(callbacks)),
      progress_(options.input) {
  SetDeadline(context_, options.deadline);
}

std::shared_ptr<ExecStream> ExecStream::Start(std::shared_ptr<Connection> connection,
                                              v1::ExecRequest start, const ExecOptions& options,
                                              std::optional<ExecCallbacks> callbacks) {
  std::shared_ptr<ExecStream> stream(
      new ExecStream(std::move(connection), start, options, std::move(callbacks)));
  std::lock_guard lock(stream->mutex_);
  stream->self_ = stream;
  stream->connection_->stub().async()->Exec(&stream->context_, stream.get());
  stream->control_.push_back(std::move(start));
  // Callers write and read from threads of their own, until the last read has failed.
  stream->AddHold();
  stream->WriteMore();
  stream->ReadMore();
  stream->StartCall();
  return stream;
}

absl::StatusOr<std::optional<Event>> ExecStream::Next() {
  std::unique_lock lock(mutex_);
  if (callbacks_) return absl::FailedPreconditionError("events of this execution go to callbacks");
  changed_.wait(lock, [this] { return !events_.empty() || progress_.ended() || done_; });
  if (!events_.empty()) {
    Event event = std::move(events_.front());
    events_.pop_front();
    queued_bytes_ -= event.ByteSizeLong();
    ReadMore();
    return event;
  }
  if (absl::Status status = progress_.EndOfCall(done_.value_or(absl::OkStatus())); !status.ok()) {
    return status;
  }
  return std::nullopt;
}

absl::StatusOr<v1::ExecEnded> ExecStream::Wait() {
  while (true) {
    absl::StatusOr<std::optional<Event>> event = Next();
    if (!event.ok()) return event.status();
    if (!event->has_value()) break;
  }
  std::lock_guard lock(mutex_);
  return *progress_.end();
}

bool ExecStream::InputCanGo() const {
  return input_.size() < kQueuedInputs && progress_.InputRoom() > 0;
}

absl::Status ExecStream::WriteStdin(std::string_view data) {
  std::unique_lock lock(mutex_);
  while (!data.empty()) {
    changed_.wait(lock, [this] { return InputCanGo() || over_ || !progress_.CanSendInput().ok(); });
    if (absl::Status status = progress_.CanSendInput(); !status.ok()) return status;
    if (over_) return absl::FailedPreconditionError("the call is over");
    const size_t size = std::min({data.size(), kInputChunkBytes, progress_.InputRoom()});
    v1::ExecRequest request;
    request.mutable_stdin()->set_offset(progress_.SendInput(size));
    request.mutable_stdin()->set_data(data.data(), size);
    input_.push_back(std::move(request));
    data.remove_prefix(size);
    WriteMore();
  }
  return absl::OkStatus();
}

absl::Status ExecStream::CloseStdin() {
  std::lock_guard lock(mutex_);
  if (progress_.ended() || over_ || !progress_.CloseInput()) return absl::OkStatus();
  v1::ExecRequest request;
  request.mutable_stdin()->set_offset(progress_.SendInput(0));
  request.mutable_stdin()->set_eof(true);
  input_.push_back(std::move(request));
  WriteMore();
  return absl::OkStatus();
}

absl::Status ExecStream::SendControl(v1::ExecRequest request) {
  std::lock_guard lock(mutex_);
  if (progress_.ended()) return absl::FailedPreconditionError("the program has ended");
  if (over_) return absl::FailedPreconditionError("the call is over");
  if (control_.size() >= kQueuedControls) {
    return absl::ResourceExhaustedError("64 signals are waiting to be sent");
  }
  control_.push_back(std::move(request));
  WriteMore();
  return absl::OkStatus();
}

void ExecStream::Detach() {
  std::unique_lock lock(mutex_);
  const bool in_callback = callback_thread_ == std::this_thread::get_id();
  detached_ = true;
  ReadMore();
  // Behind `ended` the call's own end is on its way; cancelling it would look like a lost caller.
  if (progress_.ended() && !in_callback) {
    changed_.wait_for(lock, kEndOfCallWait, [this] { return done_.has_value(); });
  }
  if (done_) return;
  context_.TryCancel();
  if (in_callback) return;
  changed_.wait(lock, [this] { return done_.has_value(); });
}

void ExecStream::ReadMore() {
  if (reading_ || over_ || (queued_bytes_ >= kReadAheadBytes && !detached_)) return;
  reading_ = true;
  StartRead(&incoming_);
}

void ExecStream::WriteMore() {
  if (writing_ || over_) return;
  std::deque<v1::ExecRequest>& queue = control_.empty() ? input_ : control_;
  if (queue.empty()) return;
  outgoing_ = std::move(queue.front());
  queue.pop_front();
  writing_ = true;
  StartWrite(&outgoing_);
}

template <typename Callback>
void ExecStream::CallBack(std::unique_lock<std::mutex>& lock, Callback callback) {
  callback_thread_ = std::this_thread::get_id();
  lock.unlock();
  callback();
  lock.lock();
  callback_thread_ = {};
}

void ExecStream::OnReadDone(bool ok) {
  std::unique_lock lock(mutex_);
  reading_ = false;
  if (!ok) {
    over_ = true;
    changed_.notify_all();
    lock.unlock();
    RemoveHold();
    return;
  }
  if (progress_.Take(incoming_) && !detached_) {
    if (!callbacks_) {
      queued_bytes_ += incoming_.ByteSizeLong();
      events_.push_back(std::move(incoming_));
    } else if (callbacks_->on_event) {
      CallBack(lock, [this] { callbacks_->on_event(incoming_); });
    }
  }
  incoming_.Clear();
  changed_.notify_all();
  ReadMore();
}

void ExecStream::OnWriteDone(bool ok) {
  std::lock_guard lock(mutex_);
  writing_ = false;
  // A failed write means that the call is over; the last read says so too, and why.
  if (!ok) return;
  changed_.notify_all();
  WriteMore();
}

void ExecStream::OnDone(const grpc::Status& status) {
  std::unique_lock lock(mutex_);
  const absl::Status result = FromGrpc(status);
  if (callbacks_ && callbacks_->on_done) {
    const absl::Status end = progress_.EndOfCall(result);
    CallBack(lock, [this, &end] {
      callbacks_->on_done(end.ok() ? absl::StatusOr<v1::ExecEnded>(*progress_.end()) : end);
    });
  }
  // Whoever frees the last reference may free the channel, whose end waits for gRPC's threads: that
  // must not be one of them. A handle stays until it sees done_, unless it was destroyed within a
  // callback.
  std::shared_ptr<ExecStream> self = std::move(self_);
  const bool last = self.use_count() == 1;
  if (!last) self.reset();
  done_ = result;
  changed_.notify_all();
  lock.unlock();
  if (last) std::thread([self = std::move(self)] {}).detach();
}

}  // namespace sandbroker::client

#include "sandbroker/client/execution.h"

#include <utility>

#include "client/convert.h"
#include "client/exec_stream.h"

namespace sandbroker::client {

Execution::Execution(std::shared_ptr<ExecStream> stream) : stream_(std::move(stream)) {}
Execution::Execution(Execution&&) noexcept = default;

Execution& Execution::operator=(Execution&& other) noexcept {
  if (this != &other) {
    if (stream_) stream_->Detach();
    stream_ = std::move(other.stream_);
  }
  return *this;
}

Execution::~Execution() {
  if (stream_) stream_->Detach();
}

const std::string& Execution::execution_id() const { return stream_->execution_id(); }

absl::StatusOr<std::optional<Event>> Execution::Next() { return stream_->Next(); }

absl::StatusOr<v1::ExecEnded> Execution::Wait() { return stream_->Wait(); }

absl::Status Execution::WriteStdin(std::string_view data) { return stream_->WriteStdin(data); }

absl::Status Execution::CloseStdin() { return stream_->CloseStdin(); }

absl::Status Execution::Signal(int number) {
  v1::ExecRequest request;
  request.mutable_signal()->set_number(number);
  return stream_->SendControl(std::move(request));
}

absl::Status Execution::Cancel(std::optional<Duration> kill_grace) {
  v1::ExecRequest request;
  request.mutable_cancel();
  if (kill_grace) *request.mutable_cancel()->mutable_kill_grace() = ToProto(*kill_grace);
  return stream_->SendControl(std::move(request));
}

void Execution::Detach() { stream_->Detach(); }

}  // namespace sandbroker::client

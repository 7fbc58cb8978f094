#include "client/exec_progress.h"

#include <algorithm>
#include <utility>

#include "lib/base/strings.h"

namespace sandbroker::client {

bool ExecProgress::Take(const Event& event) {
  if (ended()) return false;
  switch (event.event_case()) {
    case Event::kReady:
      ready_ = true;
      limit_ = std::max(limit_, event.ready().input_limit());
      program_closed_input_ |= event.ready().input_closed();
      return true;
    case Event::kInputWindow:
      limit_ = std::max(limit_, event.input_window().limit());
      return false;
    case Event::kInputClosed:
      program_closed_input_ = true;
      return true;
    case Event::kEnded:
      end_ = event.ended();
      return true;
    case Event::kHeartbeat:
      return false;
    case Event::kOutput:
    case Event::kGap:
    case Event::kWarning:
      return true;
    case Event::EVENT_NOT_SET:
      // An event of a newer server.
      return false;
  }
  return false;
}

absl::Status ExecProgress::EndOfCall(const absl::Status& status) const {
  if (ended()) return absl::OkStatus();
  if (status.ok()) {
    return absl::UnknownError("the call ended without saying how the program ended");
  }
  if (!ready_) return status;
  absl::Status result(status.code(), StrCat("lost the program before its end: ", status.message()));
  status.ForEachPayload([&result](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

absl::Status ExecProgress::CanSendInput() const {
  if (input_ == Stdin::kNull) {
    return absl::FailedPreconditionError("the program was started without input");
  }
  if (ended()) return absl::FailedPreconditionError("the program has ended");
  if (program_closed_input_) {
    return absl::FailedPreconditionError("the program takes no more input");
  }
  if (caller_closed_input_) return absl::FailedPreconditionError("the input was closed before");
  return absl::OkStatus();
}

uint64_t ExecProgress::SendInput(size_t size) { return std::exchange(sent_, sent_ + size); }

bool ExecProgress::CloseInput() { return !std::exchange(caller_closed_input_, true); }

}  // namespace sandbroker::client

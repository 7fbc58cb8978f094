// A link's stream, as the execution it is attached to sees it. Agent thread only.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "sandbroker/agent/v1/link.pb.h"

namespace sandbroker::guest {

class ExecutionStream {
 public:
  virtual ~ExecutionStream() = default;
  // Output, or the end, may be fetched: Execution::Next and Execution::EndFor.
  virtual void OnOutputReady() = 0;
  virtual void OnEvent(const agent::v1::Event& event) = 0;
  // Input may be sent up to `room` bytes beyond what the stream has received.
  virtual void OnInputRoom(uint64_t room) = 0;
  // The execution has let go of the stream. Reasons as in the protocols; `ended` may be null. The
  // stream must not call back into the execution.
  virtual void OnReset(const absl::Status& why, const agent::v1::Ended* ended) = 0;
};

}  // namespace sandbroker::guest

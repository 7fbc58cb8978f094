// One reader's and writer's view of one execution: it opens the stream on the sandbox's link,
// relays in both directions on credit, re-attaches by offset when the link was replaced, and makes
// sure that its observer hears exactly one last word. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "lib/base/bytes.h"
#include "lib/broker/agent_link.h"

namespace sandbroker::broker {

// Implemented by whoever made the call. OnEnded or OnFailed is the last callback, once.
class ExecutionObserver {
 public:
  virtual ~ExecutionObserver() = default;
  virtual void OnReady(const agent::Ready& ready) = 0;
  // Hand the bytes on, then call Execution::Consumed with their count.
  virtual void OnOutput(uint64_t offset, int fd, SharedBytes data) = 0;
  virtual void OnGap(uint64_t from, uint64_t to) = 0;
  virtual void OnWarning(const std::string& reason, const std::string& message) = 0;
  virtual void OnInputClosed(uint64_t accepted) = 0;
  // Input below `limit` can be sent without waiting.
  virtual void OnInputLimit(uint64_t limit) = 0;
  virtual void OnEnded(const agent::Ended& ended) = 0;
  // The stream can't go on (refused, taken over, draining): says nothing about the program.
  virtual void OnFailed(const absl::Status& status) = 0;
};

class Execution {
 public:
  virtual ~Execution() = default;
  virtual const std::string& id() const = 0;
  // Input at `offset`. Kept until the agent takes it: send on only while `offset` is below the
  // last OnInputLimit, or after that was announced anew; at most 1 MiB a call.
  virtual void WriteInput(uint64_t offset, SharedBytes data) = 0;
  // Input that waits for credit. Read the caller no further while this is not 0.
  virtual uint64_t pending_input() const = 0;
  virtual void CloseInput(uint64_t offset) = 0;
  virtual void Signal(int number) = 0;
  // TERM, `grace`, KILL; unset = the spec's grace.
  virtual void Cancel(const std::string& by, Duration grace) = 0;
  virtual void Consumed(uint64_t bytes) = 0;
  // The observer goes away; no callback after it. `on_purpose` frees the log at the agent.
  enum class Leave { kLost, kOnPurpose };
  virtual void Detach(Leave leave) = 0;
};

}  // namespace sandbroker::broker

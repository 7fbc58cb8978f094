// What a caller's stream knows of its program: which events are the caller's to see, whether it
// ended, and how much input may be sent. Decisions only; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "sandbroker/client/options.h"

namespace sandbroker::client {

class ExecProgress {
 public:
  explicit ExecProgress(Stdin input) : input_(input) {}

  // True when the event is the caller's to see. Nothing is after `ended`.
  bool Take(const Event& event);
  // What a caller waits for when there are no more events: OK after `ended`, else why there is
  // none.
  absl::Status EndOfCall(const absl::Status& status) const;

  bool ended() const { return end_.has_value(); }
  const std::optional<v1::ExecEnded>& end() const { return end_; }

  // OK while the program may take more input from this stream.
  absl::Status CanSendInput() const;
  // Bytes that may be sent now; more would be left unread and hold up whatever follows it.
  size_t InputRoom() const { return limit_ > sent_ ? static_cast<size_t>(limit_ - sent_) : 0; }
  // Counts `size` bytes as sent and returns the offset of the first.
  uint64_t SendInput(size_t size);
  // True once: the end of input has to be sent.
  bool CloseInput();

 private:
  const Stdin input_;
  bool ready_ = false;
  bool program_closed_input_ = false;
  bool caller_closed_input_ = false;
  uint64_t sent_ = 0;
  uint64_t limit_ = 0;
  std::optional<v1::ExecEnded> end_;
};

}  // namespace sandbroker::client

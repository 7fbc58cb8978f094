// Protocol E: which bytes of input are taken, from which writer, and where input ends. Owned by
// one execution. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/guest/core/attempt_book.h"

namespace sandbroker::guest {

class InputLedger {
 public:
  // `has_input` false: stdin is /dev/null, closed from the beginning.
  explicit InputLedger(bool has_input) : closed_(!has_input) {}

  // What Attach would answer.
  absl::Status CheckAttempt(const std::string& holder, uint64_t attempt) const {
    return attempts_.Check(holder, attempt);
  }
  // The new writer's epoch; every older one is over. ATTEMPT_STALE or CAPACITY.
  absl::StatusOr<uint64_t> Attach(const std::string& holder, uint64_t attempt);

  // How many of the first bytes at `offset` are already taken (all of them: a repeat); the rest is
  // now accepted and must be written. TAKEN_OVER for an older epoch, INPUT_GAP above the accepted
  // offset, FAILED_PRECONDITION beyond the end of input.
  absl::StatusOr<uint64_t> OnData(uint64_t epoch, uint64_t offset, uint64_t size);

  // True when this is what ends the input; false for a repeat.
  absl::StatusOr<bool> OnCloseInput(uint64_t epoch, uint64_t offset);

  // The program closed its stdin or ended: nothing more is taken. True the first time.
  bool OnProgramClosed() { return !std::exchange(closed_, true); }

  uint64_t accepted() const { return accepted_; }
  uint64_t epoch() const { return epoch_; }
  // No input is taken any more, by whichever side's wish.
  bool closed() const { return closed_ || end_.has_value(); }

 private:
  absl::Status CheckEpoch(uint64_t epoch) const;

  AttemptBook attempts_;
  uint64_t epoch_ = 0;
  uint64_t accepted_ = 0;
  std::optional<uint64_t> end_;
  bool closed_;
};

}  // namespace sandbroker::guest

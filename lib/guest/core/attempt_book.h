// The newest attempt seen of every holder, for one role (reader or writer) of one execution: an
// attach that is not newer is a delayed message of a client that has moved on. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace sandbroker::guest {

class AttemptBook {
 public:
  // Holders remembered; one more is refused, because forgetting one would let its past back in.
  static constexpr size_t kMaxHolders = 1024;

  // ATTEMPT_STALE unless newer than the newest; CAPACITY for a holder too many.
  absl::Status Check(const std::string& holder, uint64_t attempt) const;
  void Record(const std::string& holder, uint64_t attempt) { newest_[holder] = attempt; }

 private:
  std::map<std::string, uint64_t> newest_;
};

}  // namespace sandbroker::guest

#include "lib/guest/core/attempt_book.h"

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::guest {

absl::Status AttemptBook::Check(const std::string& holder, uint64_t attempt) const {
  const auto it = newest_.find(holder);
  if (it == newest_.end()) {
    if (newest_.size() < kMaxHolders) return absl::OkStatus();
    return MakeError(Reason::kCapacity,
                     StrCat("execution was held by ", kMaxHolders, " holders already"));
  }
  if (attempt > it->second) return absl::OkStatus();
  return MakeError(Reason::kAttemptStale, StrCat("attempt ", attempt, " of holder ", holder,
                                                 " is not newer than ", it->second));
}

}  // namespace sandbroker::guest

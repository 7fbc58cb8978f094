#include "lib/guest/core/input_ledger.h"

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::guest {

absl::StatusOr<uint64_t> InputLedger::Attach(const std::string& holder, uint64_t attempt) {
  SANDBROKER_RETURN_IF_ERROR(attempts_.Check(holder, attempt));
  attempts_.Record(holder, attempt);
  return ++epoch_;
}

absl::Status InputLedger::CheckEpoch(uint64_t epoch) const {
  if (epoch == epoch_ && epoch != 0) return absl::OkStatus();
  return MakeError(Reason::kTakenOver,
                   StrCat("writer epoch ", epoch, " is over; it is ", epoch_, " now"));
}

absl::StatusOr<uint64_t> InputLedger::OnData(uint64_t epoch, uint64_t offset, uint64_t size) {
  SANDBROKER_RETURN_IF_ERROR(CheckEpoch(epoch));
  if (offset + size <= accepted_) return size;
  // Nobody will read it, wherever it belongs.
  if (closed_ && !end_) return size;
  if (offset > accepted_) {
    return MakeError(Reason::kInputGap,
                     StrCat("input at ", offset, ", but only ", accepted_, " bytes were accepted"));
  }
  if (end_) {
    return MakeError(Reason::kExecutionEnded,
                     StrCat("input beyond its end, which was set at ", *end_));
  }
  const uint64_t taken = accepted_ - offset;
  accepted_ = offset + size;
  return taken;
}

absl::StatusOr<bool> InputLedger::OnCloseInput(uint64_t epoch, uint64_t offset) {
  SANDBROKER_RETURN_IF_ERROR(CheckEpoch(epoch));
  if (closed_ && !end_) return false;
  if (offset > accepted_) {
    return MakeError(Reason::kInputGap, StrCat("end of input at ", offset, ", but only ", accepted_,
                                               " bytes were accepted"));
  }
  if (offset < accepted_) {
    return MakeError(Reason::kExecutionEnded, StrCat("end of input at ", offset, ", but ",
                                                     accepted_, " bytes were accepted"));
  }
  return !std::exchange(end_, offset).has_value();
}

}  // namespace sandbroker::guest

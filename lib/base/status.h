// What an expected failure is made of: an absl::Status whose payload holds a reason of the public
// contract, the field it is about, metadata, and when to try again. Made once, where the failure
// is known; lib/rpc turns it into google.rpc details. Any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/clock.h"

namespace sandbroker {

// Same names and numbers as sandbroker.v1.Reason (a test holds the two together). Append-only.
enum class Reason : int {
  kUnspecified = 0,
  kFieldInvalid = 1,
  kRequestIdReused = 2,
  kSandboxNotFound = 3,
  kExecutionNotFound = 4,
  kLeaseExpired = 5,
  kSandboxGone = 6,
  kSandboxReplaced = 7,
  kIncarnationChanged = 8,
  kSandboxSuspended = 9,
  kOffsetBeyondEnd = 10,
  kPoolExhausted = 11,
  kCapacity = 12,
  kQuotaExceeded = 13,
  kAgentUnreachable = 14,
  kApiUnreachable = 15,
  kApiTimeout = 16,
  kServerDraining = 17,
  kClaimRejected = 18,
  kImagePull = 19,
  kBrokerForbidden = 20,
  kPrivilegedSandbox = 21,
  kNotReady = 22,
  kEpochStale = 23,
  kTakenOver = 24,
  kExecutionIdReused = 25,
  kExecutionExpired = 26,
  kExecutionEnded = 27,
  kInputGap = 28,
  kHeldByOther = 29,
  kAttemptStale = 30,
  kUnauthenticated = 31,
  kNotAuthorised = 32,
  kCancelled = 33,
  kInternal = 34,
  kPoolNotFound = 35,
  kUnsupported = 36,
  kIsolationUnavailable = 37,
};
inline constexpr int kReasonCount = 38;

// "FIELD_INVALID" and so on.
std::string_view ReasonName(Reason reason);
// kUnspecified for an unknown name.
Reason ReasonFromName(std::string_view name);
// The gRPC code that the contract pairs with the reason.
absl::StatusCode CodeOf(Reason reason);

struct ErrorDetail {
  Reason reason = Reason::kUnspecified;
  // Path of the request's field, for kFieldInvalid: "lease.ttl".
  std::string field;
  // RetryInfo; set on every RESOURCE_EXHAUSTED and UNAVAILABLE.
  std::optional<Duration> retry_after;
  std::map<std::string, std::string> metadata;
};

// Code from CodeOf. RESOURCE_EXHAUSTED and UNAVAILABLE get a retry_after of 1 s unless one is set.
absl::Status MakeError(Reason reason, std::string_view message);
absl::Status MakeError(ErrorDetail detail, std::string_view message);
// kFieldInvalid about one field.
absl::Status InvalidField(std::string_view field, std::string_view message);

// Empty detail (kUnspecified) when the status carries none.
ErrorDetail DetailOf(const absl::Status& status);
inline Reason ReasonOf(const absl::Status& status) { return DetailOf(status).reason; }
// Of `status`, which must outlive it.
inline std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace sandbroker

// Returns the expression's status from the current function unless it is OK.
#define SANDBROKER_RETURN_IF_ERROR(expression)                              \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

#include "lib/base/status.h"

#include <array>
#include <charconv>
#include <vector>

#include "absl/strings/cord.h"
#include "lib/base/strings.h"

namespace sandbroker {
namespace {

constexpr char kPayload[] = "sandbroker.dev/error";

struct Row {
  std::string_view name;
  absl::StatusCode code;
};

// By number of Reason.
constexpr std::array<Row, kReasonCount> kRows = {{
    {"UNSPECIFIED", absl::StatusCode::kUnknown},
    {"FIELD_INVALID", absl::StatusCode::kInvalidArgument},
    {"REQUEST_ID_REUSED", absl::StatusCode::kInvalidArgument},
    {"SANDBOX_NOT_FOUND", absl::StatusCode::kNotFound},
    {"EXECUTION_NOT_FOUND", absl::StatusCode::kNotFound},
    {"LEASE_EXPIRED", absl::StatusCode::kFailedPrecondition},
    {"SANDBOX_GONE", absl::StatusCode::kFailedPrecondition},
    {"SANDBOX_REPLACED", absl::StatusCode::kFailedPrecondition},
    {"INCARNATION_CHANGED", absl::StatusCode::kFailedPrecondition},
    {"SANDBOX_SUSPENDED", absl::StatusCode::kFailedPrecondition},
    {"OFFSET_BEYOND_END", absl::StatusCode::kOutOfRange},
    {"POOL_EXHAUSTED", absl::StatusCode::kResourceExhausted},
    {"CAPACITY", absl::StatusCode::kResourceExhausted},
    {"QUOTA_EXCEEDED", absl::StatusCode::kResourceExhausted},
    {"AGENT_UNREACHABLE", absl::StatusCode::kUnavailable},
    {"API_UNREACHABLE", absl::StatusCode::kUnavailable},
    {"API_TIMEOUT", absl::StatusCode::kUnavailable},
    {"SERVER_DRAINING", absl::StatusCode::kUnavailable},
    {"CLAIM_REJECTED", absl::StatusCode::kFailedPrecondition},
    {"IMAGE_PULL", absl::StatusCode::kFailedPrecondition},
    {"BROKER_FORBIDDEN", absl::StatusCode::kFailedPrecondition},
    {"PRIVILEGED_SANDBOX", absl::StatusCode::kFailedPrecondition},
    {"NOT_READY", absl::StatusCode::kDeadlineExceeded},
    {"EPOCH_STALE", absl::StatusCode::kAborted},
    {"TAKEN_OVER", absl::StatusCode::kAborted},
    {"EXECUTION_ID_REUSED", absl::StatusCode::kAlreadyExists},
    {"EXECUTION_EXPIRED", absl::StatusCode::kFailedPrecondition},
    {"EXECUTION_ENDED", absl::StatusCode::kFailedPrecondition},
    {"INPUT_GAP", absl::StatusCode::kAborted},
    {"HELD_BY_OTHER", absl::StatusCode::kAborted},
    {"ATTEMPT_STALE", absl::StatusCode::kAborted},
    {"UNAUTHENTICATED", absl::StatusCode::kUnauthenticated},
    {"NOT_AUTHORISED", absl::StatusCode::kPermissionDenied},
    {"CANCELLED", absl::StatusCode::kCancelled},
    {"INTERNAL", absl::StatusCode::kInternal},
    {"POOL_NOT_FOUND", absl::StatusCode::kNotFound},
    {"UNSUPPORTED", absl::StatusCode::kUnimplemented},
    {"ISOLATION_UNAVAILABLE", absl::StatusCode::kFailedPrecondition},
}};

bool WantsRetry(absl::StatusCode code) {
  return code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kUnavailable;
}

// NUL-separated: values come from our own code and from validated fields, which hold none.
std::string Encode(const ErrorDetail& detail) {
  constexpr char kNul = '\0';
  std::string text = StrCat(static_cast<int>(detail.reason));
  text += kNul;
  text += detail.field;
  text += kNul;
  text += detail.retry_after ? StrCat(detail.retry_after->count()) : "";
  for (const auto& [key, value] : detail.metadata) {
    text += kNul;
    text += key;
    text += kNul;
    text += value;
  }
  return text;
}

int64_t ToNumber(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string_view ReasonName(Reason reason) {
  const auto number = static_cast<size_t>(reason);
  return number < kRows.size() ? kRows[number].name : kRows[0].name;
}

Reason ReasonFromName(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<Reason>(i);
  }
  return Reason::kUnspecified;
}

absl::StatusCode CodeOf(Reason reason) {
  const auto number = static_cast<size_t>(reason);
  return number < kRows.size() ? kRows[number].code : kRows[0].code;
}

absl::Status MakeError(Reason reason, std::string_view message) {
  ErrorDetail detail;
  detail.reason = reason;
  return MakeError(std::move(detail), message);
}

absl::Status MakeError(ErrorDetail detail, std::string_view message) {
  const absl::StatusCode code = CodeOf(detail.reason);
  if (WantsRetry(code) && !detail.retry_after) detail.retry_after = std::chrono::seconds(1);
  absl::Status status(code, ToAbsl(message));
  status.SetPayload(kPayload, absl::Cord(Encode(detail)));
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view message) {
  ErrorDetail detail;
  detail.reason = Reason::kFieldInvalid;
  detail.field = std::string(field);
  return MakeError(std::move(detail), StrCat(field, ": ", message));
}

ErrorDetail DetailOf(const absl::Status& status) {
  ErrorDetail detail;
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return detail;
  const std::string text(*payload);
  const std::vector<std::string_view> parts = StrSplit(text, '\0');
  if (parts.size() < 3) return detail;
  detail.reason = static_cast<Reason>(ToNumber(parts[0]));
  detail.field = std::string(parts[1]);
  if (!parts[2].empty()) detail.retry_after = Duration(ToNumber(parts[2]));
  for (size_t i = 3; i + 1 < parts.size(); i += 2) {
    detail.metadata[std::string(parts[i])] = std::string(parts[i + 1]);
  }
  return detail;
}

}  // namespace sandbroker

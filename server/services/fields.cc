#include "server/services/fields.h"

#include <limits>

#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "server/services/limits.h"

namespace sandbroker::services {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
// google.protobuf.Duration: +-10,000 years.
constexpr int64_t kMaxDurationSeconds = 315'576'000'000;
// google.protobuf.Timestamp: years 1 to 9999.
constexpr int64_t kMinTimestampSeconds = -62'135'596'800;
constexpr int64_t kMaxTimestampSeconds = 253'402'300'799;

bool WellFormed(const google::protobuf::Duration& from) {
  const int64_t seconds = from.seconds();
  const int64_t nanos = from.nanos();
  if (seconds < -kMaxDurationSeconds || seconds > kMaxDurationSeconds) return false;
  if (nanos <= -kNanosPerSecond || nanos >= kNanosPerSecond) return false;
  return (seconds <= 0 || nanos >= 0) && (seconds >= 0 || nanos <= 0);
}

// Saturates: what 64 bits of nanoseconds can't hold is as good as for ever.
int64_t ToNanos(int64_t seconds, int64_t nanos) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (seconds >= kMost / kNanosPerSecond) return kMost;
  if (seconds <= -kMost / kNanosPerSecond) return -kMost;
  return seconds * kNanosPerSecond + nanos;
}

std::string Words(Duration duration) {
  return StrCat(std::chrono::duration<double>(duration).count(), " s");
}

bool HasNul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

}  // namespace

absl::StatusOr<Duration> ReadDuration(const google::protobuf::Duration& from,
                                      std::string_view field, DurationRange range) {
  if (!WellFormed(from)) return InvalidField(field, "not a valid google.protobuf.Duration");
  const Duration value(ToNanos(from.seconds(), from.nanos()));
  if (value < range.least || value > range.most) {
    return InvalidField(field, StrCat(Words(value), " is outside ", Words(range.least), " to ",
                                      Words(range.most), "; leave it unset for the default"));
  }
  return value;
}

absl::StatusOr<WallTime> ReadTimestamp(const google::protobuf::Timestamp& from,
                                       std::string_view field) {
  if (from.seconds() < kMinTimestampSeconds || from.seconds() > kMaxTimestampSeconds ||
      from.nanos() < 0 || from.nanos() >= kNanosPerSecond) {
    return InvalidField(field, "not a valid google.protobuf.Timestamp");
  }
  return WallTime(Duration(ToNanos(from.seconds(), from.nanos())));
}

absl::Status CheckId(const std::string& id, std::string_view field) {
  if (id.empty() || IsValidId(id)) return absl::OkStatus();
  return InvalidField(field, "must match [A-Za-z0-9._-]{1,64}");
}

absl::Status CheckHandle(const std::string& handle, std::string_view field) {
  if (handle.empty()) return InvalidField(field, "is required");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<broker::EnvVar>> ReadEnvironment(
    const google::protobuf::RepeatedPtrField<v1::EnvironmentVariable>& from,
    std::string_view field) {
  if (static_cast<size_t>(from.size()) > kMaxEnvVariables) {
    return InvalidField(field, StrCat(from.size(), " variables; limit ", kMaxEnvVariables));
  }
  std::vector<broker::EnvVar> env;
  size_t bytes = 0;
  for (int i = 0; i < from.size(); ++i) {
    const std::string& name = from[i].name();
    const std::string& value = from[i].value();
    if (name.empty()) return InvalidField(StrCat(field, "[", i, "].name"), "is empty");
    if (name.find('=') != std::string::npos || HasNul(name)) {
      return InvalidField(StrCat(field, "[", i, "].name"), "holds '=' or NUL");
    }
    if (HasNul(value)) return InvalidField(StrCat(field, "[", i, "].value"), "holds NUL");
    bytes += name.size() + value.size() + 2;  // '=' and the end
    env.push_back({name, value});
  }
  if (bytes > kMaxEnvBytes) {
    return InvalidField(field, StrCat(bytes, " bytes; limit ", kMaxEnvBytes));
  }
  return env;
}

}  // namespace sandbroker::services

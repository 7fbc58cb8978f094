#include "tools/cli/flags.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/util/time_util.h"
#include "lib/base/strings.h"

namespace sandbroker::cli {
namespace {

using std::chrono::nanoseconds;

// About 292 years, what nanoseconds hold, is cut to a round number.
constexpr double kMaxSeconds = 9e9;

absl::Status Unreadable(const std::string& text) {
  return absl::InvalidArgumentError(
      StrCat("\"", text, "\" is not a duration such as 30s, 1.5h, 1h30m or 250ms"));
}

// Seconds of the unit that `text` begins with, which is taken off; 0 when there is none.
double TakeUnit(std::string_view& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  for (const auto& [name, seconds] : kUnits) {
    if (text.starts_with(name)) {
      text.remove_prefix(name.size());
      return seconds;
    }
  }
  return 0;
}

}  // namespace

absl::StatusOr<nanoseconds> ParseDuration(const std::string& text) {
  std::string_view rest = text;
  if (rest.empty()) return Unreadable(text);
  double seconds = 0;
  while (!rest.empty()) {
    double number = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(number)) return Unreadable(text);
    if (std::signbit(number)) {
      return absl::InvalidArgumentError(StrCat("\"", text, "\" is negative"));
    }
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (rest.empty() && seconds == 0) {
      return absl::InvalidArgumentError(
          StrCat("\"", text, "\" has no unit: write ", text, "s for seconds"));
    }
    const double unit = TakeUnit(rest);
    if (unit == 0) return Unreadable(text);
    seconds += number * unit;
  }
  if (seconds > kMaxSeconds) {
    return absl::InvalidArgumentError(StrCat("\"", text, "\" is too long"));
  }
  return nanoseconds(std::llround(seconds * 1e9));
}

absl::StatusOr<std::pair<std::string, std::string>> ParsePair(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(StrCat("\"", text, "\" is not KEY=VALUE"));
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

absl::StatusOr<std::chrono::system_clock::time_point> ParseTime(
    const std::string& text, std::chrono::system_clock::time_point now) {
  using Wall = std::chrono::system_clock;
  if (absl::StatusOr<nanoseconds> ago = ParseDuration(text); ago.ok()) {
    return now - std::chrono::duration_cast<Wall::duration>(*ago);
  }
  google::protobuf::Timestamp stamp;
  if (!google::protobuf::util::TimeUtil::FromString(text, &stamp)) {
    return absl::InvalidArgumentError(
        StrCat("\"", text, "\" is neither a time such as 2024-05-01T12:00:00Z nor an age such as",
               " 10m"));
  }
  // A time_point of nanoseconds ends in 2262.
  if (stamp.seconds() < 0 || stamp.seconds() > static_cast<int64_t>(kMaxSeconds)) {
    return absl::InvalidArgumentError(StrCat("\"", text, "\" is out of range"));
  }
  return Wall::time_point(std::chrono::duration_cast<Wall::duration>(
      std::chrono::seconds(stamp.seconds()) + nanoseconds(stamp.nanos())));
}

}  // namespace sandbroker::cli

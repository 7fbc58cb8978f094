// Reads the values of flags: durations, KEY=VALUE pairs, points in time. Pure; errors say what was
// expected, the caller names the flag.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace sandbroker::cli {

// "30s", "1.5h", "1h30m", "250ms". Units: ms s m h. Not negative.
absl::StatusOr<std::chrono::nanoseconds> ParseDuration(const std::string& text);

// The key is not empty; the value is all after the first '='.
absl::StatusOr<std::pair<std::string, std::string>> ParsePair(const std::string& text);

// RFC 3339 ("2024-05-01T12:00:00Z"), or a duration before `now` ("10m").
absl::StatusOr<std::chrono::system_clock::time_point> ParseTime(
    const std::string& text, std::chrono::system_clock::time_point now);

}  // namespace sandbroker::cli

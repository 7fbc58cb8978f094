// Durations ("1m30s", "250ms") and sizes ("64MiB") as people write them in a configuration, and
// back. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/base/clock.h"

namespace sandbroker::config {

// A size, so that a count of things and a count of bytes can't be mixed up.
struct ByteSize {
  uint64_t bytes = 0;
  auto operator<=>(const ByteSize&) const = default;
};

// One or more of NUMBER + h | m | s | ms | us | ns, each unit once and larger units before smaller
// ones; or plain 0. Up to ten years.
absl::StatusOr<Duration> ParseDuration(std::string_view text);
std::string FormatDuration(Duration duration);

// NUMBER + B | KiB | MiB | GiB | TiB; a number alone is bytes. Powers of ten are refused, because
// half of their readers take them for powers of two.
absl::StatusOr<ByteSize> ParseByteSize(std::string_view text);
std::string FormatByteSize(ByteSize size);

// Decimal digits, 0 to 2^32 - 1.
absl::StatusOr<uint32_t> ParseCount(std::string_view text);
absl::StatusOr<bool> ParseBool(std::string_view text);

}  // namespace sandbroker::config

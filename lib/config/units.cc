// The parsers walk the text once and refuse what they do not know; nothing is rounded.
#include "lib/config/units.h"

#include <array>
#include <charconv>
#include <limits>

#include "lib/base/strings.h"

namespace sandbroker::config {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

// Largest first: the order in which they may appear and in which values are printed.
constexpr std::array<Unit, 6> kTimeUnits = {{{"h", 3'600'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"s", 1'000'000'000},
                                             {"ms", 1'000'000},
                                             {"us", 1'000},
                                             {"ns", 1}}};
constexpr std::array<Unit, 5> kSizeUnits = {
    {{"TiB", 1ull << 40}, {"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"B", 1}}};

constexpr uint64_t kLongestNs = 10ull * 366 * 24 * kTimeUnits[0].factor;
constexpr uint64_t kLargestSize = 1ull << 60;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

absl::Status Bad(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(StrCat("'", text.substr(0, 64), "' ", why));
}

// Takes the digits at the front of `text`; false if there are none or too many.
bool TakeNumber(std::string_view* text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || !IsDigit(text->front())) return false;
  text->remove_prefix(end - text->data());
  return true;
}

std::string_view TakeUnit(std::string_view* text) {
  size_t length = 0;
  while (length < text->size() && !IsDigit((*text)[length])) ++length;
  const std::string_view unit = text->substr(0, length);
  text->remove_prefix(length);
  return unit;
}

}  // namespace

absl::StatusOr<Duration> ParseDuration(std::string_view text) {
  constexpr std::string_view kForm = "is not a duration such as 250ms, 10s or 1m30s";
  if (text == "0") return Duration(0);
  std::string_view rest = text;
  uint64_t total = 0;
  size_t next_unit = 0;
  if (rest.empty()) return Bad(text, kForm);
  while (!rest.empty()) {
    uint64_t number = 0;
    if (!TakeNumber(&rest, &number)) return Bad(text, kForm);
    const std::string_view name = TakeUnit(&rest);
    while (next_unit < kTimeUnits.size() && kTimeUnits[next_unit].name != name) ++next_unit;
    if (next_unit == kTimeUnits.size()) return Bad(text, kForm);
    const uint64_t factor = kTimeUnits[next_unit++].factor;
    if (number > (kLongestNs - total) / factor) return Bad(text, "is longer than ten years");
    total += number * factor;
  }
  return Duration(static_cast<int64_t>(total));
}

std::string FormatDuration(Duration duration) {
  uint64_t rest = duration.count() < 0 ? 0 : static_cast<uint64_t>(duration.count());
  std::string text;
  for (const Unit& unit : kTimeUnits) {
    if (rest < unit.factor) continue;
    StrAppend(&text, rest / unit.factor, unit.name);
    rest %= unit.factor;
  }
  return text.empty() ? "0s" : text;
}

absl::StatusOr<ByteSize> ParseByteSize(std::string_view text) {
  constexpr std::string_view kForm = "is not a size such as 4096, 64KiB, 256MiB or 2GiB";
  std::string_view rest = text;
  uint64_t number = 0;
  if (rest.empty() || !TakeNumber(&rest, &number)) return Bad(text, kForm);
  uint64_t factor = rest.empty() ? 1 : 0;
  for (const Unit& unit : kSizeUnits) {
    if (unit.name == rest) factor = unit.factor;
  }
  if (factor == 0) return Bad(text, kForm);
  if (number > kLargestSize / factor) return Bad(text, "is larger than 1048576TiB");
  return ByteSize{number * factor};
}

std::string FormatByteSize(ByteSize size) {
  for (const Unit& unit : kSizeUnits) {
    if (size.bytes >= unit.factor && size.bytes % unit.factor == 0) {
      return StrCat(size.bytes / unit.factor, unit.name);
    }
  }
  return "0B";
}

absl::StatusOr<uint32_t> ParseCount(std::string_view text) {
  std::string_view rest = text;
  uint64_t number = 0;
  if (rest.empty() || !TakeNumber(&rest, &number) || !rest.empty() ||
      number > std::numeric_limits<uint32_t>::max()) {
    return Bad(text, "is not a whole number from 0 to 4294967295");
  }
  return static_cast<uint32_t>(number);
}

absl::StatusOr<bool> ParseBool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return Bad(text, "is neither true nor false");
}

}  // namespace sandbroker::config

#include "lib/guest/core/oom_kills.h"

#include <charconv>

#include "lib/base/strings.h"

namespace sandbroker::guest {

uint64_t ParseOomKills(std::string_view text) {
  constexpr std::string_view kName = "oom_kill ";
  for (const std::string_view line : StrSplit(text, '\n')) {
    if (!line.starts_with(kName)) continue;
    const std::string_view digits = line.substr(kName.size());
    uint64_t count = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    return end.ec == std::errc() ? count : 0;
  }
  return 0;
}

}  // namespace sandbroker::guest

#include "lib/base/ids.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "lib/base/crypto.h"

namespace sandbroker {

bool IsValidId(std::string_view id) {
  if (id.empty() || id.size() > 64) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

std::string NewId() { return HexEncode(RandomBytes(16)); }

}  // namespace sandbroker

#include "lib/broker/core/handle.h"

#include <vector>

#include "lib/base/crypto.h"
#include "lib/base/status.h"

namespace sandbroker::broker {
namespace {

constexpr std::string_view kPrefix = "sb1_";
constexpr std::string_view kVersion = "handle.1";
constexpr size_t kMacSize = 16;  // 128 bits of HMAC-SHA256
constexpr size_t kMaxText = 1024;

std::string Mac(std::string_view body, std::string_view key) {
  return HmacSha256(key, body).substr(0, kMacSize);
}

uint64_t LoadLength(std::string_view bytes) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = (length << 8) | static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
  }
  return length;
}

// The inverse of FieldList; only run on bytes whose MAC was right.
bool SplitFields(std::string_view bytes, std::vector<std::string>* fields) {
  while (!bytes.empty()) {
    if (bytes.size() < 8) return false;
    const uint64_t length = LoadLength(bytes);
    bytes.remove_prefix(8);
    if (length > bytes.size()) return false;
    fields->emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return true;
}

absl::Status NotFound() {
  return MakeError(Reason::kSandboxNotFound, "no sandbox of this caller has that sandbox_id");
}

}  // namespace

std::string EncodeHandle(const Handle& handle, std::string_view key) {
  FieldList fields(kVersion);
  fields.Add(handle.tenant).Add(std::string_view(&handle.kind, 1)).Add(handle.space);
  fields.Add(handle.name).Add(handle.uid).Add(handle.incarnation);
  return std::string(kPrefix) + Base64UrlEncode(fields.bytes() + Mac(fields.bytes(), key));
}

absl::StatusOr<Handle> DecodeHandle(std::string_view text, std::string_view key) {
  if (text.size() > kMaxText || !text.starts_with(kPrefix)) return NotFound();
  const auto raw = Base64UrlDecode(text.substr(kPrefix.size()));
  if (!raw || raw->size() < kMacSize) return NotFound();
  const std::string_view body = std::string_view(*raw).substr(0, raw->size() - kMacSize);
  if (!ConstantTimeEquals(std::string_view(*raw).substr(body.size()), Mac(body, key))) {
    return NotFound();
  }
  std::vector<std::string> fields;
  if (!SplitFields(body, &fields) || fields.size() != 7 || fields[0] != kVersion ||
      fields[2].size() != 1) {
    return NotFound();
  }
  return Handle{fields[1], fields[2][0], fields[3], fields[4], fields[5], fields[6]};
}

}  // namespace sandbroker::broker

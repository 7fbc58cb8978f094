// The few primitives that handles, receipts and the link's proof need, over OpenSSL. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandbroker {

// 32 raw bytes.
std::string Sha256(std::string_view data);
std::string HmacSha256(std::string_view key, std::string_view data);
// From the kernel; ends the process when the kernel has none.
std::string RandomBytes(size_t count);
// Takes the same time wherever the two differ.
bool ConstantTimeEquals(std::string_view a, std::string_view b);

std::string HexEncode(std::string_view data);
// Without padding.
std::string Base64UrlEncode(std::string_view data);
// Refuses padding, other alphabets and non-canonical endings.
std::optional<std::string> Base64UrlDecode(std::string_view text);

// Unambiguous bytes of a list of fields: every field goes in with its length (u64 LE) before it.
// Hashes are over these, never over serialized protos, whose bytes are not canonical.
class FieldList {
 public:
  // `version` goes first, so that a changed list can never meet an old hash.
  explicit FieldList(std::string_view version) { Add(version); }
  FieldList& Add(std::string_view field);
  FieldList& Add(int64_t number);
  // A count, then each field.
  FieldList& AddAll(const std::vector<std::string>& fields);
  const std::string& bytes() const { return bytes_; }
  std::string Hash() const { return Sha256(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace sandbroker

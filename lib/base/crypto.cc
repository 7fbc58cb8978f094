#include "lib/base/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <array>

#include "lib/base/check.h"

namespace sandbroker {
namespace {

constexpr std::string_view kBase64Url =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const unsigned char* Unsigned(std::string_view data) {
  return reinterpret_cast<const unsigned char*>(data.data());
}

// By character: its value, -1 = none. Handles are decoded on every call.
constexpr std::array<int8_t, 256> Base64UrlValues() {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kBase64Url.size(); ++i) {
    values[static_cast<unsigned char>(kBase64Url[i])] = static_cast<int8_t>(i);
  }
  return values;
}

int Base64UrlValue(char c) {
  static constexpr std::array<int8_t, 256> kValues = Base64UrlValues();
  return kValues[static_cast<unsigned char>(c)];
}

}  // namespace

std::string Sha256(std::string_view data) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(Unsigned(data), data.size(), reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string HmacSha256(std::string_view key, std::string_view data) {
  std::string mac(SHA256_DIGEST_LENGTH, '\0');
  unsigned int length = 0;
  SANDBROKER_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Unsigned(data),
                        data.size(), reinterpret_cast<unsigned char*>(mac.data()),
                        &length) != nullptr);
  return mac;
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  size_t done = 0;
  while (done < count) {
    const ssize_t got = getrandom(bytes.data() + done, count - done, 0);
    SANDBROKER_CHECK(got > 0);
    done += static_cast<size_t>(got);
  }
  return bytes;
}

bool ConstantTimeEquals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string HexEncode(std::string_view data) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(data.size() * 2);
  for (const unsigned char c : data) {
    text += kDigits[c >> 4];
    text += kDigits[c & 15];
  }
  return text;
}

std::string Base64UrlEncode(std::string_view data) {
  std::string text;
  uint32_t bits = 0;
  int held = 0;
  for (const unsigned char c : data) {
    bits = (bits << 8) | c;
    held += 8;
    while (held >= 6) {
      held -= 6;
      text += kBase64Url[(bits >> held) & 63];
    }
  }
  if (held > 0) text += kBase64Url[(bits << (6 - held)) & 63];
  return text;
}

std::optional<std::string> Base64UrlDecode(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string data;
  data.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const int value = Base64UrlValue(c);
    if (value < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      data += static_cast<char>((bits >> held) & 255);
    }
  }
  // The bits left over carry nothing; letting them vary would give one value many names.
  if ((bits & ((1u << held) - 1)) != 0) return std::nullopt;
  return data;
}

FieldList& FieldList::Add(std::string_view field) {
  uint64_t length = field.size();
  for (int i = 0; i < 8; ++i, length >>= 8) bytes_ += static_cast<char>(length & 255);
  bytes_ += field;
  return *this;
}

FieldList& FieldList::Add(int64_t number) {
  std::array<char, 8> raw;
  for (int i = 0; i < 8; ++i)
    raw[static_cast<size_t>(i)] = static_cast<char>((number >> (8 * i)) & 255);
  return Add(std::string_view(raw.data(), raw.size()));
}

FieldList& FieldList::AddAll(const std::vector<std::string>& fields) {
  Add(static_cast<int64_t>(fields.size()));
  for (const std::string& field : fields) Add(std::string_view(field));
  return *this;
}

}  // namespace sandbroker

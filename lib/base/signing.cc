#include "lib/base/signing.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/strings.h"

namespace sandbroker {
namespace {

constexpr size_t kRawBytes = 32;
constexpr std::string_view kPemStart = "-----BEGIN ";
constexpr std::string_view kPublicEnd = "-----END PUBLIC KEY-----";
constexpr std::string_view kBetween = " \t\r\n,";

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Digest = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

std::shared_ptr<EVP_PKEY> Own(EVP_PKEY* key) { return {key, &EVP_PKEY_free}; }

Bio Reader(std::string_view text) {
  // It takes no null, not even for nothing.
  const char* data = text.empty() ? "" : text.data();
  return Bio(BIO_new_mem_buf(data, static_cast<int>(text.size())), &BIO_free);
}

const unsigned char* Unsigned(std::string_view data) {
  return reinterpret_cast<const unsigned char*>(data.data());
}

bool IsP256(const EVP_PKEY* key) {
  std::array<char, 32> group{};
  return EVP_PKEY_is_a(key, "EC") == 1 &&
         EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr) == 1 &&
         std::string_view(group.data()) == "prime256v1";
}

// Ed25519 hashes by itself.
const EVP_MD* HashFor(const EVP_PKEY* key) {
  return EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
}

std::string Base64(std::string_view data) {
  std::string text(4 * ((data.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), Unsigned(data),
                                   static_cast<int>(data.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

// Only what Base64 itself would have written.
std::optional<std::string> RawKey(std::string_view text) {
  std::array<unsigned char, 48> out{};
  if (text.size() != 4 * ((kRawBytes + 2) / 3)) return std::nullopt;
  if (EVP_DecodeBlock(out.data(), Unsigned(text), static_cast<int>(text.size())) < 0) {
    return std::nullopt;
  }
  std::string raw(reinterpret_cast<const char*>(out.data()), kRawBytes);
  if (Base64(raw) != text) return std::nullopt;
  return raw;
}

absl::Status Bad(std::string_view why) {
  return absl::InvalidArgumentError(StrCat("public key: ", why));
}

absl::StatusOr<std::shared_ptr<EVP_PKEY>> ParsePem(std::string_view block) {
  auto key = Own(PEM_read_bio_PUBKEY(Reader(block).get(), nullptr, nullptr, nullptr));
  if (!key) return Bad("its PEM can't be read");
  if (EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) return Bad("is not Ed25519");
  return key;
}

absl::StatusOr<std::shared_ptr<EVP_PKEY>> ParseBase64(std::string_view text) {
  const auto raw = RawKey(text);
  if (!raw) return Bad("is neither PEM nor 32 bytes in base64");
  auto key =
      Own(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Unsigned(*raw), raw->size()));
  if (!key) return Bad("is no point of the curve");
  return key;
}

// Cuts the next key off the front of `text`.
absl::StatusOr<std::string_view> CutNext(std::string_view* text) {
  size_t size = text->find_first_of(kBetween);
  if (text->starts_with(kPemStart)) {
    if (text->find("PRIVATE KEY") < text->find('\n')) return Bad("is a private key");
    const size_t end = text->find(kPublicEnd);
    if (end == std::string_view::npos) return Bad("its PEM has no end");
    size = end + kPublicEnd.size();
  }
  const std::string_view next = text->substr(0, size);
  text->remove_prefix(next.size());
  return next;
}

}  // namespace

absl::StatusOr<std::vector<VerifyKey>> VerifyKey::ParseList(std::string_view text) {
  std::vector<VerifyKey> keys;
  while (true) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBetween)));
    if (text.empty()) break;
    if (keys.size() == kMaxKeys) return Bad(StrCat("more than ", kMaxKeys, " of them"));
    const auto next = CutNext(&text);
    if (!next.ok()) return next.status();
    auto key = next->starts_with(kPemStart) ? ParsePem(*next) : ParseBase64(*next);
    if (!key.ok()) return key.status();
    keys.push_back(VerifyKey(*std::move(key)));
  }
  if (keys.empty()) return Bad("there is none");
  return keys;
}

absl::StatusOr<VerifyKey> VerifyKey::OfCertificate(std::string_view der) {
  const unsigned char* at = Unsigned(der);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      d2i_X509(nullptr, &at, static_cast<long>(der.size())), &X509_free);
  if (!certificate) return Bad("the certificate can't be read");
  auto key = Own(X509_get_pubkey(certificate.get()));
  if (!key || !IsP256(key.get())) return Bad("the certificate's is not on P-256");
  return VerifyKey(std::move(key));
}

bool VerifyKey::Verify(std::string_view message, std::string_view signature) const {
  const Digest digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  return EVP_DigestVerifyInit(digest.get(), nullptr, HashFor(key_.get()), nullptr, key_.get()) ==
             1 &&
         EVP_DigestVerify(digest.get(), Unsigned(signature), signature.size(), Unsigned(message),
                          message.size()) == 1;
}

SigningKey SigningKey::Make(KeyKind kind) {
  EVP_PKEY* key = kind == KeyKind::kEd25519 ? EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")
                                            : EVP_EC_gen("P-256");
  SANDBROKER_CHECK(key != nullptr);
  return SigningKey(Own(key));
}

absl::StatusOr<SigningKey> SigningKey::FromPem(std::string_view pem) {
  // Nobody is there to be asked for a password.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  auto key = Own(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, no_password, nullptr));
  if (!key) return absl::InvalidArgumentError("private key: its PEM can't be read");
  if (EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return absl::InvalidArgumentError("private key: is not Ed25519");
  }
  return SigningKey(std::move(key));
}

std::string SigningKey::ToPem() const {
  const Bio out(BIO_new(BIO_s_mem()), &BIO_free);
  SANDBROKER_CHECK(PEM_write_bio_PKCS8PrivateKey(out.get(), key_.get(), nullptr, nullptr, 0,
                                                 nullptr, nullptr) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string SigningKey::PublicBase64() const {
  std::string raw(kRawBytes, '\0');
  size_t size = raw.size();
  SANDBROKER_CHECK(EVP_PKEY_get_raw_public_key(
                       key_.get(), reinterpret_cast<unsigned char*>(raw.data()), &size) == 1 &&
                   size == kRawBytes);
  return Base64(raw);
}

std::string SigningKey::Sign(std::string_view message) const {
  const Digest digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  SANDBROKER_CHECK(
      EVP_DigestSignInit(digest.get(), nullptr, HashFor(key_.get()), nullptr, key_.get()) == 1);
  size_t size = 0;
  SANDBROKER_CHECK(
      EVP_DigestSign(digest.get(), nullptr, &size, Unsigned(message), message.size()) == 1);
  std::string signature(size, '\0');
  SANDBROKER_CHECK(EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(signature.data()),
                                  &size, Unsigned(message), message.size()) == 1);
  signature.resize(size);
  return signature;
}

}  // namespace sandbroker

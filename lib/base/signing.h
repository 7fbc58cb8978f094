// Keys that sign and keys that check. Ed25519 is a broker's (kept in a file, its public part named
// in templates); P-256 is an agent's (made at each start for its certificate, never written).
// Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace sandbroker {

enum class KeyKind { kEd25519, kP256 };

// A public key. Copies share it.
class VerifyKey {
 public:
  // One Ed25519 key or several, for a rotation: PEM blocks (PUBLIC KEY) and 32 raw bytes in
  // base64, with blanks or commas between them. At most kMaxKeys; none is an error.
  static constexpr size_t kMaxKeys = 16;
  static absl::StatusOr<std::vector<VerifyKey>> ParseList(std::string_view text);
  // Of an X.509 certificate in DER, whose key must be on P-256.
  static absl::StatusOr<VerifyKey> OfCertificate(std::string_view der);

  bool Verify(std::string_view message, std::string_view signature) const;

 private:
  friend class SigningKey;
  explicit VerifyKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

// A private key. Copies share it.
class SigningKey {
 public:
  static SigningKey Make(KeyKind kind);
  // PKCS#8 in PEM, without a password, Ed25519.
  static absl::StatusOr<SigningKey> FromPem(std::string_view pem);

  std::string ToPem() const;
  // Ed25519: the 32 bytes in base64, as VerifyKey::ParseList takes them.
  std::string PublicBase64() const;
  VerifyKey verify_key() const { return VerifyKey(key_); }

  std::string Sign(std::string_view message) const;

  // For lib/base/certificate and lib/base/tls.
  evp_pkey_st* native() const { return key_.get(); }

 private:
  explicit SigningKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

}  // namespace sandbroker

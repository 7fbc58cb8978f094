#include "lib/base/certificate.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstring>
#include <memory>

#include "lib/base/check.h"
#include "lib/base/crypto.h"

namespace sandbroker {
namespace {

constexpr size_t kSerialBytes = 16;

void SetSerial(X509* certificate) {
  const std::string bytes = RandomBytes(kSerialBytes);
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                static_cast<int>(bytes.size()), nullptr),
      &BN_free);
  SANDBROKER_CHECK(number != nullptr);
  SANDBROKER_CHECK(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr);
}

void SetName(X509* certificate) {
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto* text = reinterpret_cast<const unsigned char*>("sandbroker-agent");
  SANDBROKER_CHECK(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1);
  SANDBROKER_CHECK(X509_set_issuer_name(certificate, name) == 1);
}

}  // namespace

Identity MakeIdentity() {
  const SigningKey key = SigningKey::Make(KeyKind::kP256);
  const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), &X509_free);
  X509* const certificate = made.get();
  SANDBROKER_CHECK(certificate != nullptr);
  SANDBROKER_CHECK(X509_set_version(certificate, X509_VERSION_3) == 1);
  SetSerial(certificate);
  SetName(certificate);
  SANDBROKER_CHECK(ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate), "20000101000000Z") ==
                   1);
  // RFC 5280: no end.
  SANDBROKER_CHECK(ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), "99991231235959Z") ==
                   1);
  SANDBROKER_CHECK(X509_set_pubkey(certificate, key.native()) == 1);
  SANDBROKER_CHECK(X509_sign(certificate, key.native(), EVP_sha256()) > 0);
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate, &der);
  SANDBROKER_CHECK(size > 0);
  Identity identity{key, std::string(reinterpret_cast<const char*>(der), size)};
  OPENSSL_free(der);
  return identity;
}

}  // namespace sandbroker

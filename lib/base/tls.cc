#include "lib/base/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <memory>

#include "lib/base/strings.h"

namespace sandbroker {
namespace {

// AES-128 is the quicker of the two, and as good as P-256 and X25519 around it.
constexpr const char* kCiphers =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kGroups = "X25519:P-256";
constexpr const char* kSignatures = "ECDSA+SHA256";
constexpr long kMaxCertificates = 16 * 1024;

absl::Status Failed(std::string_view what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return absl::InternalError(StrCat("TLS: ", what, ": ", text.data()));
}

absl::Status SetUp(SSL_CTX* context) {
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, kCiphers) != 1 ||
      SSL_CTX_set1_groups_list(context, kGroups) != 1) {
    return Failed("versions and ciphers");
  }
  // A resumed session shows no certificate.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  return absl::OkStatus();
}

}  // namespace

absl::Status SetUpTlsServer(SSL_CTX* context, const Identity& identity) {
  if (absl::Status status = SetUp(context); !status.ok()) return status;
  if (SSL_CTX_set_num_tickets(context, 0) != 1) return Failed("tickets");
  const auto* der = reinterpret_cast<const unsigned char*>(identity.certificate.data());
  if (SSL_CTX_use_certificate_ASN1(context, static_cast<int>(identity.certificate.size()), der) !=
          1 ||
      SSL_CTX_use_PrivateKey(context, identity.key.native()) != 1) {
    return Failed("certificate");
  }
  return absl::OkStatus();
}

absl::Status SetUpTlsClient(SSL_CTX* context) {
  if (absl::Status status = SetUp(context); !status.ok()) return status;
  if (SSL_CTX_set1_sigalgs_list(context, kSignatures) != 1) return Failed("signatures");
  SSL_CTX_set_max_cert_list(context, kMaxCertificates);
  return absl::OkStatus();
}

std::string PeerCertificate(const SSL* session) {
  if (SSL_is_init_finished(session) != 1) return "";
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(session),
                                                                &X509_free);
  unsigned char* der = nullptr;
  const int size = certificate ? i2d_X509(certificate.get(), &der) : 0;
  if (size <= 0) return "";
  std::string copy(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return copy;
}

void IgnoreOpenSslConfiguration() { OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr); }

}  // namespace sandbroker

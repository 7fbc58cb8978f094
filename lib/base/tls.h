// What both ends of a link ask of TLS beyond what Asio can say. Over OpenSSL's own objects, which
// Asio hands out by native_handle(). Any thread; one session at a time by one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "lib/base/certificate.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX
struct ssl_st;      // OpenSSL's SSL

namespace sandbroker {

// TLS 1.3 only, with `identity`; sessions are never resumed.
absl::Status SetUpTlsServer(ssl_ctx_st* context, const Identity& identity);
// TLS 1.3 only, towards such a server. The certificate is not verified here.
absl::Status SetUpTlsClient(ssl_ctx_st* context);

// DER of the certificate with whose key the peer has signed this session's handshake; empty before
// that.
std::string PeerCertificate(const ssl_st* session);

// The system's OpenSSL configuration is not read: in a sandbox it is the image's. Call it before
// anything else of this library.
void IgnoreOpenSslConfiguration();

}  // namespace sandbroker

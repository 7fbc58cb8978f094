// Certificates for one test, made on the spot.
#pragma once

#include <string>

namespace sandbroker::testing {

struct TestCertificate {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

// Its own authority.
TestCertificate MakeAuthority(const std::string& name);
// `alt_name` as OpenSSL writes it: "IP:127.0.0.1" or "DNS:api.example"; empty for a client.
TestCertificate MakeCertificate(const TestCertificate& authority, const std::string& name,
                                const std::string& alt_name);

}  // namespace sandbroker::testing

#include "tests/support/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "lib/base/check.h"

namespace sandbroker::testing {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Cert = std::unique_ptr<X509, decltype(&X509_free)>;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

Bio Memory() { return Bio(BIO_new(BIO_s_mem()), BIO_free); }
Bio Reading(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

std::string TextOf(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

void Extend(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  SANDBROKER_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Cert Fill(const std::string& name, EVP_PKEY* key) {
  static long serial = 1;
  Cert certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 86400);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

TestCertificate Print(X509* certificate, EVP_PKEY* key) {
  const Bio first = Memory();
  PEM_write_bio_X509(first.get(), certificate);
  const Bio second = Memory();
  PEM_write_bio_PrivateKey(second.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return {TextOf(first), TextOf(second)};
}

}  // namespace

TestCertificate MakeAuthority(const std::string& name) {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Cert certificate = Fill(name, key.get());
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  Extend(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  Extend(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign");
  SANDBROKER_CHECK(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
  return Print(certificate.get(), key.get());
}

TestCertificate MakeCertificate(const TestCertificate& authority, const std::string& name,
                                const std::string& alt_name) {
  const Bio issuer_text = Reading(authority.certificate);
  const Cert issuer(PEM_read_bio_X509(issuer_text.get(), nullptr, nullptr, nullptr), X509_free);
  const Bio key_text = Reading(authority.key);
  const Key issuer_key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr),
                       EVP_PKEY_free);
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Cert certificate = Fill(name, key.get());
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.get()));
  if (!alt_name.empty()) {
    Extend(certificate.get(), issuer.get(), NID_subject_alt_name, alt_name);
  }
  SANDBROKER_CHECK(X509_sign(certificate.get(), issuer_key.get(), EVP_sha256()) > 0);
  return Print(certificate.get(), key.get());
}

}  // namespace sandbroker::testing

#include "lib/kube/credentials.h"

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/verify_mode.hpp>
#include <utility>

#include "lib/base/strings.h"

namespace sandbroker::kube {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

absl::Status Bad(std::string_view what, const error_code& error) {
  return absl::InvalidArgumentError(StrCat(what, ": ", error.message()));
}

absl::StatusOr<std::shared_ptr<ssl::context>> MakeTls(const Access& access) {
  const auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  static constexpr unsigned char kHttp1[] = "\x08http/1.1";
  SSL_CTX_set_alpn_protos(context->native_handle(), kHttp1, sizeof(kHttp1) - 1);
  context->set_verify_mode(access.insecure ? ssl::verify_none : ssl::verify_peer);
  error_code error;
  if (!access.ca.empty()) {
    context->add_certificate_authority(boost::asio::buffer(access.ca), error);
    if (error) return Bad("certificate authority", error);
  } else if (!access.insecure) {
    context->set_default_verify_paths(error);
    if (error) return Bad("the system's certificate authorities", error);
  }
  if (access.client_certificate.empty()) return context;
  // Nobody is asked for a password on the terminal: a key that needs one is refused.
  context->set_password_callback([](size_t, ssl::context::password_purpose) { return ""; }, error);
  context->use_certificate_chain(boost::asio::buffer(access.client_certificate), error);
  if (error) return Bad("client certificate", error);
  context->use_private_key(boost::asio::buffer(access.client_key), ssl::context::pem, error);
  if (error) return Bad("client key", error);
  return context;
}

}  // namespace

Credentials::Credentials(const Clock& clock, Access access, FileReader read)
    : clock_(clock), access_(std::move(access)), read_(std::move(read)), read_at_(clock.Now()) {
  if (!access_.tls) return;
  auto made = MakeTls(access_);
  status_ = made.status();
  if (made.ok()) tls_ = *std::move(made);
}

const std::string& Credentials::Token() {
  RereadIfDue();
  return access_.token;
}

std::shared_ptr<ssl::context> Credentials::Tls() {
  RereadIfDue();
  return tls_;
}

void Credentials::RereadIfDue() {
  if (clock_.Now() - read_at_ >= kRecheck) Reread();
}

// A file that can't be read, or makes no sense, is being replaced: what was there stays.
void Credentials::Reread() {
  read_at_ = clock_.Now();
  if (!access_.token_file.empty()) {
    const auto text = read_(access_.token_file);
    if (text.ok()) {
      if (auto token = CleanToken(*text); token.ok()) access_.token = *std::move(token);
    }
  }
  if (!access_.tls || access_.ca_file.empty()) return;
  auto ca = read_(access_.ca_file);
  if (!ca.ok() || *ca == access_.ca) return;
  Access changed = access_;
  changed.ca = *std::move(ca);
  auto made = MakeTls(changed);
  if (!made.ok()) return;
  access_.ca = std::move(changed.ca);
  tls_ = *std::move(made);
}

}  // namespace sandbroker::kube

#include "lib/kube/connection.h"

#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "lib/base/strings.h"

namespace sandbroker::kube {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kReadPiece = 64 * 1024;

// A peer that vanished without a word is noticed in about 25 s, also where nothing is being sent.
void SetOptions(Connection::Tcp::socket& socket) {
  error_code ignored;
  socket.set_option(Connection::Tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&socket](int option, int value) {
    setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, 10);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 25'000);
}

Connection::Tcp::socket& Socket(std::optional<asio::ssl::stream<Connection::Tcp::socket>>& tls,
                                std::optional<Connection::Tcp::socket>& plain,
                                asio::io_context& context, asio::ssl::context* with) {
  if (with != nullptr) return tls.emplace(context, *with).next_layer();
  return plain.emplace(context);
}

}  // namespace

Connection::Connection(asio::io_context& context, std::shared_ptr<asio::ssl::context> tls)
    : tls_context_(std::move(tls)), socket_(Socket(tls_, plain_, context, tls_context_.get())) {}

std::string Connection::Note(std::string_view what, const error_code& error) {
  return error_ = StrCat(what, ": ", error.message());
}

Task<std::string> Connection::Open(Tcp::endpoint endpoint, std::string server_name) {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await socket_.async_connect(endpoint, token);
  if (error) co_return Note("connect", error);
  SetOptions(socket_);
  if (!tls_) co_return "";
  if (!server_name.empty()) {
    tls_->set_verify_callback(asio::ssl::host_name_verification(server_name));
    error_code not_an_address;
    asio::ip::make_address(server_name, not_an_address);
    // A name only: the extension has no place for addresses.
    if (not_an_address) SSL_set_tlsext_host_name(tls_->native_handle(), server_name.c_str());
  }
  co_await tls_->async_handshake(asio::ssl::stream_base::client, token);
  if (!error) co_return "";
  const long verified = SSL_get_verify_result(tls_->native_handle());
  Note("TLS", error);
  if (verified != X509_V_OK) StrAppend(&error_, ": ", X509_verify_cert_error_string(verified));
  co_return error_;
}

Task<size_t> Connection::Write(std::string_view bytes) {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const auto buffer = asio::buffer(bytes.data(), bytes.size());
  size_t sent = 0;
  if (tls_) {
    sent = co_await asio::async_write(*tls_, buffer, token);
  } else {
    sent = co_await asio::async_write(socket_, buffer, token);
  }
  if (error) Note("send", error);
  co_return sent;
}

Task<std::string> Connection::Read() {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  std::string piece(kReadPiece, '\0');
  const auto buffer = asio::buffer(piece.data(), piece.size());
  size_t got = 0;
  if (tls_) {
    got = co_await tls_->async_read_some(buffer, token);
  } else {
    got = co_await socket_.async_read_some(buffer, token);
  }
  ended_properly_ = error == asio::error::eof;
  if (error) Note("receive", error);
  piece.resize(error ? 0 : got);
  co_return piece;
}

bool Connection::Usable() {
  if (!socket_.is_open()) return false;
  char byte = 0;
  const ssize_t got = recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void Connection::Cut() {
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace sandbroker::kube

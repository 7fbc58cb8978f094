#include "lib/link/tls_connector.h"

#include <boost/asio/connect.hpp>
#include <utility>

#include "lib/link/link_errors.h"

namespace sandbroker::link {

using boost::system::error_code;
namespace ip = boost::asio::ip;

TlsConnector::TlsConnector(boost::asio::io_context& io, boost::asio::ssl::context& tls)
    : resolver_(io), socket_(io, tls) {}

void TlsConnector::Start(const std::string& host, uint16_t port, Done done) {
  done_ = std::move(done);
  error_code not_numeric;
  const auto address = ip::make_address(host, not_numeric);
  if (not_numeric) return Resolve(host, port);
  Connect(Tcp::resolver::results_type::create(Tcp::endpoint(address, port), host, ""));
}

void TlsConnector::Resolve(const std::string& host, uint16_t port) {
  resolver_.async_resolve(
      host, std::to_string(port), Tcp::resolver::numeric_service,
      [self = shared_from_this()](const error_code& error, Tcp::resolver::results_type where) {
        if (error) return self->Finish(NotMet("refused", StrCat("resolve: ", error.message())));
        self->Connect(where);
      });
}

void TlsConnector::Connect(const Tcp::resolver::results_type& where) {
  if (!done_) return;
  boost::asio::async_connect(
      socket_.next_layer(), where,
      [self = shared_from_this()](const error_code& error, const Tcp::endpoint&) {
        self->OnConnected(error);
      });
}

void TlsConnector::OnConnected(const error_code& error) {
  if (!done_) return;
  if (error) return Finish(NotMet("refused", StrCat("connect: ", error.message())));
  error_code ignored;
  socket_.next_layer().set_option(ip::tcp::no_delay(true), ignored);
  socket_.async_handshake(
      boost::asio::ssl::stream_base::client,
      [self = shared_from_this()](const error_code& failed) { self->OnHandshake(failed); });
}

void TlsConnector::OnHandshake(const error_code& error) {
  if (!done_) return;
  if (error) return Finish(NoAgent("TLS", error));
  Finish(MakeTransport(std::move(socket_)));
}

void TlsConnector::Finish(absl::StatusOr<std::unique_ptr<Transport>> result) {
  if (const auto done = std::exchange(done_, nullptr)) done(std::move(result));
}

void TlsConnector::Cancel() {
  done_ = nullptr;
  resolver_.cancel();
  error_code ignored;
  socket_.next_layer().close(ignored);
}

}  // namespace sandbroker::link

// One connection to an agent on TCP: resolve (a name only) -> connect -> TLS handshake. Who answers
// there is not known yet: that is for the proof above it. Loop thread only; kept alive by its
// pending operation.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/link/link_transport.h"

namespace sandbroker::link {

class TlsConnector : public std::enable_shared_from_this<TlsConnector> {
 public:
  using Done = std::function<void(absl::StatusOr<std::unique_ptr<Transport>>)>;

  TlsConnector(boost::asio::io_context& io, boost::asio::ssl::context& tls);
  // `done` is called once, unless Cancel was. Once.
  void Start(const std::string& host, uint16_t port, Done done);
  void Cancel();

 private:
  using Tcp = boost::asio::ip::tcp;

  void Resolve(const std::string& host, uint16_t port);
  void Connect(const Tcp::resolver::results_type& where);
  void OnConnected(const boost::system::error_code& error);
  void OnHandshake(const boost::system::error_code& error);
  void Finish(absl::StatusOr<std::unique_ptr<Transport>> result);

  Tcp::resolver resolver_;
  TlsSocket socket_;
  Done done_;
};

}  // namespace sandbroker::link

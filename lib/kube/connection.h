// One connection to the API server, plain or TLS: bytes out, bytes in, and how to cut it. It knows
// nothing of HTTP. Loop thread only; kept alive by whoever uses it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/async/task.h"
#include "lib/base/clock.h"

namespace sandbroker::kube {

class Connection {
 public:
  using Tcp = boost::asio::ip::tcp;

  // `tls`: null for a plain one.
  Connection(boost::asio::io_context& context, std::shared_ptr<boost::asio::ssl::context> tls);

  // Empty: connected. `server_name` is whom the certificate must name; empty = nobody is checked.
  Task<std::string> Open(Tcp::endpoint endpoint, std::string server_name);

  // How much of `bytes` was handed over, all of it unless something broke.
  Task<size_t> Write(std::string_view bytes);
  // Empty: the other side has ended it, or it broke; end() says which.
  Task<std::string> Read();
  // Of the last Read: a proper end of the stream. Under TLS an end without its farewell is a cut.
  bool ended_properly() const { return ended_properly_; }
  const std::string& error() const { return error_; }

  // Idle and, as far as can be seen, still open: nothing unasked has come, not even an end.
  bool Usable();
  // At once; what waits for it fails.
  void Cut();

  // How many requests it has carried.
  int carried = 0;
  Time idle_since = {};

 private:
  std::string Note(std::string_view what, const boost::system::error_code& error);

  std::shared_ptr<boost::asio::ssl::context> tls_context_;
  std::optional<boost::asio::ssl::stream<Tcp::socket>> tls_;
  std::optional<Tcp::socket> plain_;
  Tcp::socket& socket_;
  bool ended_properly_ = false;
  std::string error_;
};

}  // namespace sandbroker::kube

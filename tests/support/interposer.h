// Who stands between a broker and an agent on TCP: passes bytes on as they are, or ends TLS with a
// certificate of its own and starts it anew towards the agent. Has a thread of its own.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/certificate.h"

namespace sandbroker::test {

class Interposer {
 public:
  // In front of `port` of loopback. With `own` it reads along; the first `drops` connections are
  // closed as soon as they are made.
  explicit Interposer(uint16_t port, std::optional<Identity> own = {}, int drops = 0);
  ~Interposer();

  uint16_t port() const { return port_; }
  // Closes every connection there is.
  void Cut();

  class Pair {
   public:
    virtual ~Pair() = default;
    virtual void Close() = 0;
  };

 private:
  using Tcp = boost::asio::ip::tcp;

  void Accept();
  void Serve(Tcp::socket socket);

  boost::asio::io_context io_{1};
  boost::asio::ssl::context server_tls_;
  boost::asio::ssl::context client_tls_;
  const Tcp::endpoint target_;
  const bool reads_along_;
  int drops_;
  Tcp::acceptor acceptor_;
  uint16_t port_;
  std::vector<std::weak_ptr<Pair>> pairs_;
  std::thread thread_;
};

}  // namespace sandbroker::test

// The WebSocket of one link: accepts the upgrade, hands whole messages up, and takes one outgoing
// frame after the other, without copying output. Knows frames but no protocol, and hides what is
// below it: a unix socket, or TLS on TCP. Agent thread only.
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "lib/base/bytes.h"
#include "lib/wire/frame.h"

namespace sandbroker::guest {

template <class Protocol>
using SocketOf = boost::asio::basic_stream_socket<Protocol, boost::asio::io_context::executor_type>;
using UnixSocket = SocketOf<boost::asio::local::stream_protocol>;
using TcpSocket = SocketOf<boost::asio::ip::tcp>;

struct DataOut {
  wire::DataHeader header;
  SharedBytes bytes;
};
using Outgoing = std::variant<std::string, DataOut>;

class LinkSocketHandler {
 public:
  virtual ~LinkSocketHandler() = default;
  virtual void OnUpgraded() = 0;
  // Some bytes have come: the peer lives.
  virtual void OnLife() = 0;
  // False: read no further until ResumeReading.
  virtual bool OnMessage(std::string_view message) = 0;
  // What to write next, if anything.
  virtual std::optional<Outgoing> NextOutgoing() = 0;
  // The last callback.
  virtual void OnClosed() = 0;
};

class LinkSocket {
 public:
  virtual ~LinkSocket() = default;
  // `handler` outlives the socket or calls Abandon.
  virtual void Start(LinkSocketHandler* handler) = 0;
  // Something may be there to write.
  virtual void Kick() = 0;
  virtual void ResumeReading() = 0;
  // Writes what NextOutgoing still gives, then closes. Nothing is read any more.
  virtual void CloseAfterWrites() = 0;
  // Closes at once; no callback afterwards.
  virtual void Abandon() = 0;
};

std::shared_ptr<LinkSocket> MakeLinkSocket(UnixSocket socket);
// `tls` outlives it.
std::shared_ptr<LinkSocket> MakeLinkSocket(TcpSocket socket, boost::asio::ssl::context& tls);

}  // namespace sandbroker::guest

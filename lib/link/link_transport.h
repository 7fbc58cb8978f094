// The WebSocket of one link, as the broker's side of it: a message goes out, part of one comes in.
// Knows nothing of frames, and hides what is below it: a unix socket, or TLS on TCP. Loop thread
// only.
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/system/error_code.hpp>
#include <memory>
#include <string>

namespace sandbroker::link {

using UnixSocket = boost::asio::local::stream_protocol::socket;
using TlsSocket = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;

// Who uses a transport; kept alive by each pending operation.
class TransportUser {
 public:
  virtual ~TransportUser() = default;
  virtual void OnUpgraded(const boost::system::error_code& error) = 0;
  virtual void OnRead(const boost::system::error_code& error, size_t bytes) = 0;
  virtual void OnWritten(const boost::system::error_code& error) = 0;
};

class Transport {
 public:
  // What goes out together as one message; the second may be empty.
  using Parts = std::array<boost::asio::const_buffer, 2>;

  // `user` owns the transport.
  virtual ~Transport() = default;
  virtual void Upgrade(std::shared_ptr<TransportUser> user) = 0;
  // Part of a message, into `room`. One at a time, as is Write.
  virtual void Read(boost::asio::mutable_buffer room, std::shared_ptr<TransportUser> user) = 0;
  // The bytes stay where they are until OnWritten.
  virtual void Write(const Parts& parts, std::shared_ptr<TransportUser> user) = 0;
  // Pending operations end with an error.
  virtual void Close() = 0;

  // About what was read last.
  virtual bool message_done() const = 0;
  virtual bool binary() const = 0;
  // DER of what the peer showed and signed this TLS session with; empty on a unix socket.
  virtual std::string peer_certificate() const = 0;
};

std::unique_ptr<Transport> MakeTransport(UnixSocket socket);
// After the TLS handshake.
std::unique_ptr<Transport> MakeTransport(TlsSocket socket);

}  // namespace sandbroker::link

#include "lib/link/link_transport.h"

#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <type_traits>
#include <utility>

#include "lib/base/tls.h"
#include "lib/wire/frame.h"

namespace sandbroker::link {
namespace {

namespace websocket = boost::beast::websocket;
using boost::system::error_code;
using User = std::shared_ptr<TransportUser>;

template <class Stream>
class TransportOver final : public Transport {
 public:
  explicit TransportOver(Stream below) : websocket_(std::move(below)) {
    websocket_.binary(true);
    websocket_.auto_fragment(false);
    websocket_.write_buffer_bytes(64 * 1024 + 64);
    websocket_.read_message_max(wire::kMaxMessage);
    websocket::permessage_deflate off;
    off.client_enable = false;
    off.server_enable = false;
    websocket_.set_option(off);
    websocket_.set_option(websocket::stream_base::decorator([](websocket::request_type& request) {
      request.set(boost::beast::http::field::sec_websocket_protocol,
                  boost::string_view(wire::kSubprotocol.data(), wire::kSubprotocol.size()));
    }));
  }

  void Upgrade(User user) override {
    websocket_.async_handshake("agent", "/", [user = std::move(user)](const error_code& error) {
      user->OnUpgraded(error);
    });
  }

  void Read(boost::asio::mutable_buffer room, User user) override {
    websocket_.async_read_some(room,
                               [user = std::move(user)](const error_code& error, size_t bytes) {
                                 user->OnRead(error, bytes);
                               });
  }

  void Write(const Parts& parts, User user) override {
    websocket_.async_write(parts, [user = std::move(user)](const error_code& error, size_t) {
      user->OnWritten(error);
    });
  }

  void Close() override {
    error_code ignored;
    boost::beast::get_lowest_layer(websocket_).close(ignored);
  }

  bool message_done() const override { return websocket_.is_message_done(); }
  bool binary() const override { return websocket_.got_binary(); }

  std::string peer_certificate() const override {
    if constexpr (std::is_same_v<Stream, TlsSocket>) {
      // Asio hands the session out of a stream that may be changed only.
      return PeerCertificate(const_cast<Stream&>(websocket_.next_layer()).native_handle());
    } else {
      return "";
    }
  }

 private:
  websocket::stream<Stream> websocket_;
};

}  // namespace

std::unique_ptr<Transport> MakeTransport(UnixSocket socket) {
  return std::make_unique<TransportOver<UnixSocket>>(std::move(socket));
}

std::unique_ptr<Transport> MakeTransport(TlsSocket socket) {
  return std::make_unique<TransportOver<TlsSocket>>(std::move(socket));
}

}  // namespace sandbroker::link

#include "lib/guest/link_socket.h"

#include <array>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <type_traits>
#include <utility>

namespace sandbroker::guest {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;

constexpr size_t kMaxRequest = 8 * 1024;

// A larger message's memory is not kept.
constexpr size_t kKeptBuffer = 512 * 1024;

// Beast's own buffer for one write; output larger than it goes from where it lies.
constexpr size_t kWriteBuffer = 64 * 1024 + 64;

bool OffersOurProtocol(const http::request<http::empty_body>& request) {
  const auto offered = request[http::field::sec_websocket_protocol];
  return http::token_list(offered).exists({wire::kSubprotocol.data(), wire::kSubprotocol.size()});
}

using TlsStream = asio::ssl::stream<TcpSocket>;

template <class Stream>
class LinkSocketOver final : public LinkSocket,
                             public std::enable_shared_from_this<LinkSocketOver<Stream>> {
 public:
  template <class... Below>
  explicit LinkSocketOver(Below&&... below);

  void Start(LinkSocketHandler* handler) override;
  void Kick() override;
  void ResumeReading() override;
  void CloseAfterWrites() override;
  void Abandon() override;

 private:
  void ReadRequest();
  void OnRequest(error_code error);
  void Refuse(std::string why);
  void Read();
  void OnRead(error_code error);
  void Write(Outgoing outgoing);
  void OnWritten(error_code error);
  void Close();

  websocket::stream<Stream, false> websocket_;
  LinkSocketHandler* handler_ = nullptr;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> refusal_;
  Outgoing writing_;
  bool upgraded_ = false;
  bool write_in_flight_ = false;
  bool reading_ = false;
  bool closing_ = false;
};

template <class Stream>
template <class... Below>
LinkSocketOver<Stream>::LinkSocketOver(Below&&... below)
    : websocket_(std::forward<Below>(below)...) {
  websocket_.binary(true);
  websocket_.auto_fragment(false);
  websocket_.write_buffer_bytes(kWriteBuffer);
  websocket_.read_message_max(wire::kMaxMessage);
  websocket_.set_option(websocket::stream_base::decorator([](websocket::response_type& response) {
    response.set(http::field::sec_websocket_protocol,
                 boost::beast::string_view(wire::kSubprotocol.data(), wire::kSubprotocol.size()));
  }));
}

template <class Stream>
void LinkSocketOver<Stream>::Start(LinkSocketHandler* handler) {
  handler_ = handler;
  if constexpr (std::is_same_v<Stream, TlsStream>) {
    websocket_.next_layer().async_handshake(
        asio::ssl::stream_base::server, [self = this->shared_from_this()](error_code error) {
          if (error || self->handler_ == nullptr || self->closing_) return self->Close();
          self->ReadRequest();
        });
  } else {
    ReadRequest();
  }
}

template <class Stream>
void LinkSocketOver<Stream>::ReadRequest() {
  parser_.emplace();
  parser_->header_limit(kMaxRequest);
  http::async_read(
      websocket_.next_layer(), buffer_, *parser_,
      [self = this->shared_from_this()](error_code error, size_t) { self->OnRequest(error); });
}

template <class Stream>
void LinkSocketOver<Stream>::OnRequest(error_code error) {
  if (handler_ == nullptr || closing_) return Close();
  if (error) return error == http::error::end_of_stream ? Close() : Refuse("not HTTP");
  const auto& request = parser_->get();
  if (!websocket::is_upgrade(request)) return Refuse("not a WebSocket upgrade");
  if (!OffersOurProtocol(request)) {
    return Refuse("subprotocol " + std::string(wire::kSubprotocol) + " is not offered");
  }
  if (buffer_.size() != 0) return Refuse("data before the upgrade was answered");
  websocket_.async_accept(request, [self = this->shared_from_this()](error_code accepted) {
    self->parser_.reset();
    if (accepted || self->handler_ == nullptr || self->closing_) return self->Close();
    self->upgraded_ = true;
    self->handler_->OnUpgraded();
    self->Read();
    self->Kick();
  });
}

template <class Stream>
void LinkSocketOver<Stream>::Refuse(std::string why) {
  refusal_.emplace(http::status::bad_request, 11);
  refusal_->set(http::field::content_type, "text/plain");
  refusal_->body() = std::move(why) + "\n";
  refusal_->keep_alive(false);
  refusal_->prepare_payload();
  http::async_write(websocket_.next_layer(), *refusal_,
                    [self = this->shared_from_this()](error_code, size_t) { self->Close(); });
}

template <class Stream>
void LinkSocketOver<Stream>::ResumeReading() {
  if (upgraded_ && !reading_ && !closing_) Read();
}

// Pieces of a message count as life, so a large one on a slow path does not look dead.
template <class Stream>
void LinkSocketOver<Stream>::Read() {
  reading_ = true;
  websocket_.async_read_some(
      buffer_, wire::kMaxMessage + 1,
      [self = this->shared_from_this()](error_code error, size_t) { self->OnRead(error); });
}

template <class Stream>
void LinkSocketOver<Stream>::OnRead(error_code error) {
  reading_ = false;
  if (closing_ || handler_ == nullptr) return;
  if (error) return Close();
  handler_->OnLife();
  if (!websocket_.is_message_done()) return Read();
  const auto data = buffer_.data();
  const bool go_on =
      websocket_.got_text()
          ? handler_->OnMessage({})
          : handler_->OnMessage({static_cast<const char*>(data.data()), data.size()});
  buffer_.consume(buffer_.size());
  if (buffer_.capacity() > kKeptBuffer) buffer_.shrink_to_fit();
  if (go_on && !closing_ && handler_ != nullptr) Read();
}

template <class Stream>
void LinkSocketOver<Stream>::Kick() {
  if (!upgraded_ || write_in_flight_ || handler_ == nullptr) return;
  if (auto next = handler_->NextOutgoing()) return Write(*std::move(next));
  if (!closing_) return;
  write_in_flight_ = true;
  websocket_.async_close(websocket::close_code::policy_error,
                         [self = this->shared_from_this()](error_code) { self->Close(); });
}

template <class Stream>
void LinkSocketOver<Stream>::Write(Outgoing outgoing) {
  write_in_flight_ = true;
  writing_ = std::move(outgoing);
  auto done = [self = this->shared_from_this()](error_code error, size_t) {
    self->OnWritten(error);
  };
  if (const auto* control = std::get_if<std::string>(&writing_)) {
    websocket_.async_write(asio::buffer(*control), std::move(done));
    return;
  }
  const DataOut& data = std::get<DataOut>(writing_);
  websocket_.async_write(
      std::array<asio::const_buffer, 2>{asio::buffer(data.header),
                                        asio::buffer(data.bytes.data(), data.bytes.size())},
      std::move(done));
}

template <class Stream>
void LinkSocketOver<Stream>::OnWritten(error_code error) {
  write_in_flight_ = false;
  writing_ = std::string();
  if (error) return Close();
  Kick();
}

template <class Stream>
void LinkSocketOver<Stream>::CloseAfterWrites() {
  if (std::exchange(closing_, true)) return;
  if (!upgraded_) return Close();
  Kick();
}

template <class Stream>
void LinkSocketOver<Stream>::Close() {
  closing_ = true;
  error_code ignored;
  boost::beast::get_lowest_layer(websocket_).close(ignored);
  if (LinkSocketHandler* handler = std::exchange(handler_, nullptr)) handler->OnClosed();
}

template <class Stream>
void LinkSocketOver<Stream>::Abandon() {
  handler_ = nullptr;
  Close();
}

}  // namespace

std::shared_ptr<LinkSocket> MakeLinkSocket(UnixSocket socket) {
  return std::make_shared<LinkSocketOver<UnixSocket>>(std::move(socket));
}

std::shared_ptr<LinkSocket> MakeLinkSocket(TcpSocket socket, asio::ssl::context& tls) {
  return std::make_shared<LinkSocketOver<TlsStream>>(std::move(socket), tls);
}

}  // namespace sandbroker::guest

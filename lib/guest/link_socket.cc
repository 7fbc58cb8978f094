#include "lib/guest/link_socket.h"

#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
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

}  // namespace

LinkSocket::LinkSocket(UnixSocket socket, LinkSocketHandler* handler)
    : websocket_(std::move(socket)), handler_(handler) {
  websocket_.binary(true);
  websocket_.auto_fragment(false);
  websocket_.write_buffer_bytes(kWriteBuffer);
  websocket_.read_message_max(wire::kMaxMessage);
  websocket_.set_option(websocket::stream_base::decorator([](websocket::response_type& response) {
    response.set(http::field::sec_websocket_protocol,
                 boost::beast::string_view(wire::kSubprotocol.data(), wire::kSubprotocol.size()));
  }));
}

void LinkSocket::Start() {
  parser_.emplace();
  parser_->header_limit(kMaxRequest);
  http::async_read(
      websocket_.next_layer(), buffer_, *parser_,
      [self = shared_from_this()](error_code error, size_t) { self->OnRequest(error); });
}

void LinkSocket::OnRequest(error_code error) {
  if (handler_ == nullptr || closing_) return Close();
  if (error) return error == http::error::end_of_stream ? Close() : Refuse("not HTTP");
  const auto& request = parser_->get();
  if (!websocket::is_upgrade(request)) return Refuse("not a WebSocket upgrade");
  if (!OffersOurProtocol(request)) {
    return Refuse("subprotocol " + std::string(wire::kSubprotocol) + " is not offered");
  }
  if (buffer_.size() != 0) return Refuse("data before the upgrade was answered");
  websocket_.async_accept(request, [self = shared_from_this()](error_code accepted) {
    self->parser_.reset();
    if (accepted || self->handler_ == nullptr || self->closing_) return self->Close();
    self->upgraded_ = true;
    self->handler_->OnUpgraded();
    self->Read();
    self->Kick();
  });
}

void LinkSocket::Refuse(std::string why) {
  refusal_.emplace(http::status::bad_request, 11);
  refusal_->set(http::field::content_type, "text/plain");
  refusal_->body() = std::move(why) + "\n";
  refusal_->keep_alive(false);
  refusal_->prepare_payload();
  http::async_write(websocket_.next_layer(), *refusal_,
                    [self = shared_from_this()](error_code, size_t) { self->Close(); });
}

void LinkSocket::ResumeReading() {
  if (upgraded_ && !reading_ && !closing_) Read();
}

// Pieces of a message count as life, so a large one on a slow path does not look dead.
void LinkSocket::Read() {
  reading_ = true;
  websocket_.async_read_some(
      buffer_, wire::kMaxMessage + 1, [self = shared_from_this()](error_code error, size_t) {
        self->reading_ = false;
        if (self->closing_ || self->handler_ == nullptr) return;
        if (error) return self->Close();
        self->handler_->OnLife();
        if (!self->websocket_.is_message_done()) return self->Read();
        const auto data = self->buffer_.data();
        const bool go_on =
            self->websocket_.got_text()
                ? self->handler_->OnMessage({})
                : self->handler_->OnMessage({static_cast<const char*>(data.data()), data.size()});
        self->buffer_.consume(self->buffer_.size());
        if (self->buffer_.capacity() > kKeptBuffer) self->buffer_.shrink_to_fit();
        if (go_on && !self->closing_ && self->handler_ != nullptr) self->Read();
      });
}

void LinkSocket::Kick() {
  if (!upgraded_ || write_in_flight_ || handler_ == nullptr) return;
  if (auto next = handler_->NextOutgoing()) return Write(*std::move(next));
  if (!closing_) return;
  write_in_flight_ = true;
  websocket_.async_close(websocket::close_code::policy_error,
                         [self = shared_from_this()](error_code) { self->Close(); });
}

void LinkSocket::Write(Outgoing outgoing) {
  write_in_flight_ = true;
  writing_ = std::move(outgoing);
  auto done = [self = shared_from_this()](error_code error, size_t) { self->OnWritten(error); };
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

void LinkSocket::OnWritten(error_code error) {
  write_in_flight_ = false;
  writing_ = std::string();
  if (error) return Close();
  Kick();
}

void LinkSocket::CloseAfterWrites() {
  if (std::exchange(closing_, true)) return;
  if (!upgraded_) return Close();
  Kick();
}

void LinkSocket::Close() {
  closing_ = true;
  error_code ignored;
  websocket_.next_layer().close(ignored);
  if (LinkSocketHandler* handler = std::exchange(handler_, nullptr)) handler->OnClosed();
}

void LinkSocket::Abandon() {
  handler_ = nullptr;
  Close();
}

}  // namespace sandbroker::guest

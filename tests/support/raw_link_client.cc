#include "tests/support/raw_link_client.h"

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <functional>
#include <type_traits>
#include <utility>

#include "lib/base/crypto.h"
#include "lib/base/tls.h"
#include "lib/wire/handshake.h"

namespace sandbroker::test {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

using UnixSocket =
    asio::basic_stream_socket<asio::local::stream_protocol, asio::io_context::executor_type>;
using TlsSocket = asio::ssl::stream<asio::ip::tcp::socket>;

}  // namespace

class RawTransport {
 public:
  using ReadDone = std::function<void(error_code)>;

  virtual ~RawTransport() = default;
  virtual bool Upgrade(const std::string& subprotocol) = 0;
  virtual void Read(beast::flat_buffer& buffer, ReadDone done) = 0;
  virtual void Write(std::string_view message, bool binary) = 0;
  virtual void StartWrite(const std::string& message, ReadDone done) = 0;
  virtual void WriteRaw(std::string_view bytes) = 0;
  virtual void Close() = 0;
  virtual std::string certificate() = 0;
};

namespace {

template <class Stream>
class RawTransportOver final : public RawTransport {
 public:
  template <class... Below>
  explicit RawTransportOver(Below&&... below) : websocket(std::forward<Below>(below)...) {}

  bool Upgrade(const std::string& wanted) override {
    websocket.binary(true);
    websocket.auto_fragment(false);
    websocket.read_message_max(wire::kMaxMessage);
    websocket.set_option(
        beast::websocket::stream_base::decorator([wanted](beast::websocket::request_type& request) {
          if (!wanted.empty()) request.set(beast::http::field::sec_websocket_protocol, wanted);
        }));
    error_code error;
    beast::websocket::response_type response;
    websocket.handshake(response, "agent", "/", error);
    const auto chosen = response[beast::http::field::sec_websocket_protocol];
    return !error && std::string_view(chosen.data(), chosen.size()) == wire::kSubprotocol;
  }
  void Read(beast::flat_buffer& buffer, ReadDone done) override {
    websocket.async_read(buffer, [done](error_code error, size_t) { done(error); });
  }
  void Write(std::string_view message, bool binary) override {
    websocket.binary(binary);
    error_code ignored;
    websocket.write(asio::buffer(message.data(), message.size()), ignored);
  }
  void StartWrite(const std::string& message, ReadDone done) override {
    websocket.binary(true);
    websocket.async_write(asio::buffer(message), [done](error_code error, size_t) { done(error); });
  }
  void WriteRaw(std::string_view bytes) override {
    error_code ignored;
    asio::write(websocket.next_layer(), asio::buffer(bytes.data(), bytes.size()), ignored);
  }
  void Close() override {
    error_code ignored;
    beast::get_lowest_layer(websocket).close(ignored);
  }
  std::string certificate() override {
    if constexpr (std::is_same_v<Stream, TlsSocket>) {
      return PeerCertificate(websocket.next_layer().native_handle());
    }
    return "";
  }

  beast::websocket::stream<Stream, false> websocket;
};

asio::ssl::context& ClientTls() {
  static asio::ssl::context context(asio::ssl::context::tlsv13_client);
  return context;
}

}  // namespace

RawLinkClient::RawLinkClient() = default;
RawLinkClient::~RawLinkClient() = default;

bool RawLinkClient::Connect(const std::string& path) {
  auto transport = std::make_unique<RawTransportOver<UnixSocket>>(io_);
  error_code error;
  transport->websocket.next_layer().connect({path}, error);
  transport_ = std::move(transport);
  return !error;
}

bool RawLinkClient::ConnectTls(uint16_t port) {
  auto transport = std::make_unique<RawTransportOver<TlsSocket>>(io_, ClientTls());
  TlsSocket& tls = transport->websocket.next_layer();
  error_code error;
  tls.next_layer().connect({asio::ip::address_v4::loopback(), port}, error);
  if (!error) tls.next_layer().set_option(asio::ip::tcp::no_delay(true), error);
  if (!error) tls.handshake(TlsSocket::client, error);
  transport_ = std::move(transport);
  return !error;
}

bool RawLinkClient::Upgrade(std::string_view subprotocol) {
  return transport_->Upgrade(std::string(subprotocol));
}

bool RawLinkClient::ReceiveHello() {
  if (!Until([&] { return !controls_.empty(); })) return false;
  hello_ = controls_.front().agent_hello();
  controls_.clear();
  return true;
}

std::optional<agent::AgentProof> RawLinkClient::Answer(const agent::BrokerHello& hello) {
  agent::Control control;
  *control.mutable_broker_hello() = hello;
  SendControl(control);
  if (!Until([&] { return !controls_.empty() || link_reset_; }) || controls_.empty()) return {};
  agent::AgentProof proof = controls_.front().agent_proof();
  controls_.clear();
  return proof;
}

bool RawLinkClient::Handshake(std::string_view secret, uint32_t version, Duration heartbeat) {
  if (!ReceiveHello()) return false;
  agent::BrokerHello mine;
  mine.set_version(version);
  mine.set_nonce(RandomBytes(wire::kNonceSize));
  mine.set_proof(
      wire::MakeProof(wire::Side::kBroker, secret, hello_.nonce(), mine.nonce(), hello_.boot_id()));
  mine.set_heartbeat_interval_ns(heartbeat.count());
  const auto answer = Answer(mine);
  return answer && wire::CheckProof(wire::Side::kAgent, answer->proof(), secret, hello_.nonce(),
                                    mine.nonce(), hello_.boot_id())
                       .ok();
}

agent::BrokerHello RawLinkClient::SignedHello(const SigningKey& key) {
  agent::BrokerHello mine;
  mine.set_version(wire::kVersion);
  mine.set_nonce(RandomBytes(wire::kNonceSize));
  mine.set_signature(
      wire::MakeSignature(wire::Side::kBroker, key,
                          {hello_.nonce(), mine.nonce(), hello_.boot_id(), certificate_hash()}));
  return mine;
}

bool RawLinkClient::Prove(const agent::BrokerHello& hello) {
  const auto answer = Answer(hello);
  const auto key = VerifyKey::OfCertificate(transport_->certificate());
  return answer && key.ok() &&
         wire::CheckSignature(wire::Side::kAgent, answer->signature(), {*key},
                              {hello_.nonce(), hello.nonce(), hello_.boot_id(), certificate_hash()})
             .ok();
}

std::string RawLinkClient::certificate_hash() const { return Sha256(transport_->certificate()); }

bool RawLinkClient::Open(const std::string& path, std::string_view secret) {
  return Connect(path) && Upgrade() && Handshake(secret);
}

bool RawLinkClient::Open(const AgentDoor& door) {
  if (!door.key) return Open(door.path, door.secret);
  return ConnectTls(door.port) && Upgrade() && HandshakeTls(*door.key);
}

void RawLinkClient::Close() {
  transport_->Close();
  closed_ = true;
}

void RawLinkClient::SendMessage(std::string_view message) { transport_->Write(message, true); }

void RawLinkClient::SendText(std::string_view message) { transport_->Write(message, false); }

void RawLinkClient::SendRaw(std::string_view bytes) { transport_->WriteRaw(bytes); }

void RawLinkClient::Flood(const std::string& message, int count, Duration bound) {
  for (int i = 0; i < count && !closed_; ++i) {
    bool written = false;
    transport_->StartWrite(message, [&](error_code error) {
      written = true;
      closed_ = closed_ || error;
    });
    if (RunUntil(written, bound)) continue;
    Close();
    RunUntil(written, bound);
  }
}

void RawLinkClient::Send(uint32_t stream, wire::Kind kind, std::string_view payload) {
  SendMessage(wire::EncodeFrame(stream, kind, payload));
}

void RawLinkClient::SendControl(const agent::Control& control) {
  Send(0, wire::Kind::kEvent, control.SerializeAsString());
}

void RawLinkClient::SendCredit(uint32_t stream, uint64_t total) {
  SendMessage(wire::EncodeNumber(stream, wire::Kind::kCredit, total));
}

void RawLinkClient::SendAck(uint32_t stream, uint64_t offset) {
  SendMessage(wire::EncodeNumber(stream, wire::Kind::kAck, offset));
}

void RawLinkClient::SendInput(uint32_t stream, uint64_t offset, std::string_view bytes) {
  const auto header = wire::EncodeDataHeader(stream, offset, 0);
  std::string message(header.data(), header.size());
  message += bytes;
  SendMessage(message);
}

void RawLinkClient::SendCommand(uint32_t stream, const agent::Command& command) {
  Send(stream, wire::Kind::kEvent, command.SerializeAsString());
}

uint32_t RawLinkClient::OpenStream(const agent::Open& open, uint64_t window) {
  const uint32_t stream = ++next_stream_;
  const agent::Reader& reader = open.has_start() ? open.start().reader() : open.attach().reader();
  records_[stream].next_offset = reader.offset();
  Send(stream, wire::Kind::kOpen, open.SerializeAsString());
  windows_[stream] = window;
  granted_[stream] = window;
  if (window != 0) SendCredit(stream, window);
  return stream;
}

uint32_t RawLinkClient::Start(const agent::Start& start, uint64_t window) {
  agent::Open open;
  *open.mutable_start() = start;
  return OpenStream(open, window);
}

uint32_t RawLinkClient::Attach(const agent::Attach& attach, uint64_t window) {
  agent::Open open;
  *open.mutable_attach() = attach;
  return OpenStream(open, window);
}

bool RawLinkClient::RunUntil(const bool& flag, Duration bound) {
  const Time deadline = std::chrono::steady_clock::now() + bound;
  while (!flag) {
    const Duration left = deadline - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return false;
    io_.restart();
    io_.run_one_for(left);
  }
  return true;
}

std::optional<ReceivedFrame> RawLinkClient::Receive(Duration bound) {
  if (closed_) return std::nullopt;
  if (!std::exchange(read_pending_, true)) {
    read_done_ = false;
    transport_->Read(buffer_, [this](error_code error) {
      read_done_ = true;
      closed_ = closed_ || error;
    });
  }
  if (!RunUntil(read_done_, bound)) return std::nullopt;
  read_pending_ = false;
  if (closed_) return std::nullopt;
  const auto data = buffer_.data();
  bytes_received_ += data.size();
  const auto frame = wire::ParseFrame({static_cast<const char*>(data.data()), data.size()});
  ReceivedFrame received;
  if (frame.ok()) {
    received = {frame->stream, frame->kind, std::string(frame->payload)};
  }
  buffer_.consume(buffer_.size());
  return received;
}

void RawLinkClient::TakeData(const ReceivedFrame& frame, StreamRecord* record) {
  const auto data = wire::ParseData(frame.payload);
  if (!data.ok()) {
    record->offsets_fit = false;
    return;
  }
  ++record->data_frames;
  record->offsets_fit = record->offsets_fit && data->offset == record->next_offset;
  record->next_offset = data->offset + data->bytes.size();
  if (keep_output) {
    record->bytes += data->bytes;
    (data->fd == 2 ? record->err : record->out) += data->bytes;
  }
  uint64_t& seen = data_bytes_[frame.stream];
  seen += data->bytes.size();
  const uint64_t window = windows_[frame.stream];
  if (window == 0) return;
  uint64_t& granted = granted_[frame.stream];
  if (seen + window - granted < window / 4) return;
  granted = seen + window;
  SendCredit(frame.stream, granted);
  if (send_acks) SendAck(frame.stream, record->next_offset);
}

void RawLinkClient::TakeEvent(const ReceivedFrame& frame, StreamRecord* record) {
  agent::Event event;
  event.ParseFromString(frame.payload);
  if (event.has_ready()) record->ready = event.ready();
  if (event.has_warning()) record->warnings.push_back(event.warning());
  if (event.has_input_closed()) record->input_closed = event.input_closed();
  if (event.has_gap()) {
    record->gaps.push_back(event.gap());
    record->offsets_fit = record->offsets_fit && event.gap().from() == record->next_offset;
    record->next_offset = event.gap().to();
  }
}

void RawLinkClient::Take(const ReceivedFrame& frame) {
  if (frame.stream == 0) {
    if (frame.kind == wire::Kind::kReset) {
      link_reset_.emplace().ParseFromString(frame.payload);
    } else {
      controls_.emplace_back().ParseFromString(frame.payload);
    }
    return;
  }
  StreamRecord& record = records_[frame.stream];
  switch (frame.kind) {
    case wire::Kind::kData:
      return TakeData(frame, &record);
    case wire::Kind::kEvent:
      return TakeEvent(frame, &record);
    case wire::Kind::kCredit:
      record.input_credit = *wire::ParseNumber(frame.payload);
      return;
    case wire::Kind::kEnd:
      record.ended.emplace().ParseFromString(frame.payload);
      return;
    case wire::Kind::kReset:
      record.reset.emplace().ParseFromString(frame.payload);
      return;
    default:
      record.offsets_fit = false;
  }
}

const StreamRecord& RawLinkClient::Finish(uint32_t stream, Duration bound) {
  Until([&] { return records_[stream].over(); }, bound);
  return records_[stream];
}

bool RawLinkClient::WaitClosed(Duration bound) {
  Until([&] { return closed_; }, bound);
  return closed_;
}

agent::Start MakeStart(const std::string& id, const std::vector<std::string>& argv) {
  agent::Start start;
  start.set_execution_id(id);
  for (const auto& argument : argv) start.add_argv(argument);
  start.set_cwd("/tmp");
  start.set_kill_grace_ns(Duration(std::chrono::seconds(2)).count());
  start.set_spec_hash(Sha256(start.SerializeAsString()));
  start.mutable_reader()->set_holder("reader");
  start.mutable_reader()->set_attempt(1);
  return start;
}

}  // namespace sandbroker::test

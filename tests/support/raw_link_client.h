// A broker's end of a link for tests, made of lib/wire and nothing above it: it can do everything
// right, and everything wrong. Blocking, with a bound on every wait. Test thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/signing.h"
#include "lib/wire/frame.h"
#include "sandbroker/agent/v1/link.pb.h"
#include "tests/support/agent_process.h"

namespace sandbroker::test {

namespace agent = ::sandbroker::agent::v1;

struct ReceivedFrame {
  uint32_t stream = 0;
  wire::Kind kind = wire::Kind::kEvent;
  std::string payload;
};

// All that came on one stream.
struct StreamRecord {
  std::optional<agent::Ready> ready;
  std::vector<agent::Gap> gaps;
  std::vector<agent::Warning> warnings;
  std::optional<agent::InputClosed> input_closed;
  std::string out;    // fd 1
  std::string err;    // fd 2
  std::string bytes;  // both, in order
  uint64_t next_offset = 0;
  bool offsets_fit = true;  // no byte twice, none left out without a gap
  uint64_t data_frames = 0;
  uint64_t input_credit = 0;
  std::optional<agent::Ended> ended;
  std::optional<agent::Reset> reset;
  bool over() const { return ended || reset; }
};

// What carries the client's WebSocket.
class RawTransport;

class RawLinkClient {
 public:
  static constexpr Duration kBound = std::chrono::seconds(20);

  RawLinkClient();
  ~RawLinkClient();

  // Each answers whether it worked.
  bool Connect(const std::string& path);
  // TCP on loopback and TLS.
  bool ConnectTls(uint16_t port);
  bool Upgrade(std::string_view subprotocol = wire::kSubprotocol);
  bool Handshake(std::string_view secret, uint32_t version = wire::kVersion,
                 Duration heartbeat = std::chrono::seconds(10));
  // All three.
  bool Open(const std::string& path, std::string_view secret);
  bool Open(const AgentDoor& door);
  void Close();

  // Over TLS, step by step.
  bool ReceiveHello();
  // Nonce and signature for the agent whose hello was received.
  agent::BrokerHello SignedHello(const SigningKey& key);
  // Sends it; whether the agent has answered with a good signature.
  bool Prove(const agent::BrokerHello& hello);
  bool HandshakeTls(const SigningKey& key) { return ReceiveHello() && Prove(SignedHello(key)); }
  std::string certificate_hash() const;

  void SendMessage(std::string_view message);
  void SendText(std::string_view message);
  void Send(uint32_t stream, wire::Kind kind, std::string_view payload);
  void SendControl(const agent::Control& control);
  void SendCredit(uint32_t stream, uint64_t total);
  void SendAck(uint32_t stream, uint64_t offset);
  void SendInput(uint32_t stream, uint64_t offset, std::string_view bytes);
  void SendCommand(uint32_t stream, const agent::Command& command);
  void SendRaw(std::string_view bytes);  // beneath the WebSocket
  // The same message `count` times without reading; gives up when the peer takes none for `bound`.
  void Flood(const std::string& message, int count, Duration bound);

  // OPEN, and CREDIT for `window` bytes, kept up as output arrives unless it is 0.
  uint32_t Start(const agent::Start& start, uint64_t window = 1 << 20);
  uint32_t Attach(const agent::Attach& attach, uint64_t window = 1 << 20);

  // Nothing when none came in time or the link is over.
  std::optional<ReceivedFrame> Receive(Duration bound = kBound);
  // Receives into the records until `done` or the bound; answers whether `done`.
  template <class Fn>
  bool Until(Fn done, Duration bound = kBound) {
    const Time deadline = std::chrono::steady_clock::now() + bound;
    while (!done()) {
      const Duration left = deadline - std::chrono::steady_clock::now();
      if (left <= Duration::zero()) return false;
      const auto frame = Receive(left);
      if (!frame) return done();
      Take(*frame);
    }
    return true;
  }
  // The stream's record once it is over (or what there was when the bound ran out).
  const StreamRecord& Finish(uint32_t stream, Duration bound = kBound);
  StreamRecord& record(uint32_t stream) { return records_[stream]; }

  // The peer has closed the connection (within the bound).
  bool WaitClosed(Duration bound = kBound);
  bool closed() const { return closed_; }

  const agent::AgentHello& hello() const { return hello_; }
  // Last of its kind on stream 0.
  const std::optional<agent::Reset>& link_reset() const { return link_reset_; }
  std::vector<agent::Control>& controls() { return controls_; }
  uint64_t bytes_received() const { return bytes_received_; }
  // Otherwise records only count the bytes of output.
  bool keep_output = true;
  bool send_acks = false;

 private:
  // The agent's answer to a hello, if it is one.
  std::optional<agent::AgentProof> Answer(const agent::BrokerHello& hello);
  uint32_t OpenStream(const agent::Open& open, uint64_t window);
  void Take(const ReceivedFrame& frame);
  void TakeData(const ReceivedFrame& frame, StreamRecord* record);
  void TakeEvent(const ReceivedFrame& frame, StreamRecord* record);
  bool RunUntil(const bool& flag, Duration bound);

  boost::asio::io_context io_{1};
  std::unique_ptr<RawTransport> transport_;
  boost::beast::flat_buffer buffer_;
  bool read_pending_ = false;
  bool read_done_ = false;
  bool closed_ = false;
  agent::AgentHello hello_;
  std::optional<agent::Reset> link_reset_;
  std::vector<agent::Control> controls_;
  std::map<uint32_t, StreamRecord> records_;
  std::map<uint32_t, uint64_t> windows_;
  std::map<uint32_t, uint64_t> granted_;
  std::map<uint32_t, uint64_t> data_bytes_;
  uint64_t bytes_received_ = 0;
  uint32_t next_stream_ = 0;
};

// Fields that every test's start has.
agent::Start MakeStart(const std::string& id, const std::vector<std::string>& argv);

}  // namespace sandbroker::test

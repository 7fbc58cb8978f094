// AgentLink over the native protocol: a WebSocket, of which the agent is the server. Phases:
// handshaking -> open -> lost. One read and one write are in flight; what is sent next is decided
// by wire::SendQueue, what may arrive by wire::StreamTable. Loop thread only; kept alive by its
// pending operations and by whoever holds the link.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lib/async/loop.h"
#include "lib/broker/agent_link.h"
#include "lib/link/broker_proof.h"
#include "lib/link/link_transport.h"
#include "lib/link/read_buffer.h"
#include "lib/wire/frame.h"
#include "lib/wire/send_queue.h"
#include "lib/wire/stream_table.h"

namespace sandbroker::link {

namespace agent = ::sandbroker::agent::v1;
class NativeStream;

struct LinkSettings {
  Duration heartbeat_interval = std::chrono::seconds(10);
  // Streams open at once on one link.
  size_t max_streams = 16384;
  // Frames but DATA that wait for an agent that does not read. One more ends the link: what it
  // would have said can't be left out, and the next link says it again.
  size_t max_control_bytes = 16 * 1024 * 1024;
};

class NativeLink final : public broker::AgentLink,
                         private TransportUser,
                         public std::enable_shared_from_this<NativeLink> {
 public:
  NativeLink(Loop& loop, LinkSettings settings, std::shared_ptr<ChunkPool> chunks,
             const broker::DialTarget& target, std::unique_ptr<Transport> transport);
  ~NativeLink() override;

  // Runs the handshake; `done` is called once. `on_lost` once after a good handshake, unless Close
  // was called.
  void Start(std::function<void(const absl::Status&)> on_lost,
             std::function<void(absl::Status)> done);

  const broker::AgentInfo& info() const override { return info_; }
  std::unique_ptr<broker::AgentStream> Open(const agent::Open& open, uint64_t window,
                                            broker::AgentStreamHandler* handler) override;
  void Bind(const agent::Bind& bind, std::function<void(absl::Status)> done) override;
  void Query(std::function<void(absl::StatusOr<agent::Report>)> done) override;
  void SetBackstop(Time until) override;
  void Close(const absl::Status& why) override;
  bool open() const override { return phase_ == Phase::kOpen; }

  // For NativeStream.
  void PushControl(std::string frame);
  void MarkReady(uint32_t stream);
  void CloseStream(uint32_t stream);
  wire::StreamTable& table() { return table_; }

 private:
  enum class Phase { kHello, kProof, kOpen, kLost };
  struct DataWrite {
    wire::DataHeader header;
    SharedBytes bytes;
  };

  void OnUpgraded(const boost::system::error_code& error) override;
  void OnRead(const boost::system::error_code& error, size_t bytes) override;
  void OnWritten(const boost::system::error_code& error) override;
  std::shared_ptr<TransportUser> User() { return {shared_from_this(), this}; }
  void Read();
  void OnMessage();
  absl::Status Dispatch(const wire::Frame& frame);
  absl::Status OnControl(std::string_view payload);
  absl::Status OnHello(const agent::AgentHello& hello);
  absl::Status OnProof(const agent::AgentProof& proof);
  void OnAnswer(uint64_t sequence, absl::StatusOr<agent::Report> report);
  absl::Status OnStreamFrame(const wire::Frame& frame);
  void Write();
  bool WriteData(uint32_t stream);
  void SendControl(const agent::Control& control);
  void Overflow();
  void Beat();
  void WatchSilence();
  void Lose(const absl::Status& why, bool tell);

  Loop& loop_;
  const LinkSettings settings_;
  const std::unique_ptr<Transport> transport_;
  BrokerProof proof_;
  Phase phase_ = Phase::kHello;
  std::function<void(const absl::Status&)> on_lost_;
  std::function<void(absl::Status)> handshake_done_;

  broker::AgentInfo info_;

  ReadBuffer buffer_;
  wire::StreamTable table_;
  wire::SendQueue queue_;
  std::map<uint32_t, NativeStream*> streams_;
  bool writing_ = false;
  bool overflowed_ = false;    // the link ends as soon as its caller has returned
  std::string control_write_;  // alive while it is written
  DataWrite data_write_;

  uint64_t next_sequence_ = 1;
  std::map<uint64_t, std::function<void(absl::StatusOr<agent::Report>)>> answers_;
  Time backstop_ = kNever;
  Time last_received_;
  uint64_t beats_ = 0;
  std::unique_ptr<Timer> beat_timer_;     // sends the next heartbeat
  std::unique_ptr<Timer> silence_timer_;  // ends the link after three silent intervals
};

}  // namespace sandbroker::link

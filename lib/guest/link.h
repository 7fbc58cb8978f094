// One broker's link: the handshake, heartbeats, the rules of its streams, and a fair writer. A peer
// that breaks the protocol loses this link and nothing else. Owned by the agent, whose thread it
// runs on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lib/base/clock.h"
#include "lib/guest/execution.h"
#include "lib/guest/execution_stream.h"
#include "lib/guest/link_proof.h"
#include "lib/guest/link_socket.h"
#include "lib/wire/send_queue.h"
#include "lib/wire/stream_table.h"

namespace sandbroker::guest {

class Link;

// What a link asks of the agent.
class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  virtual agent::v1::AgentHello Hello() const = 0;
  virtual const LinkProof& proof() const = 0;
  virtual Workshop& shop() = 0;
  // The execution a stream is opened on, attached to `stream`.
  struct Opened {
    std::shared_ptr<Execution> execution;
    Execution::Greeting greeting;
  };
  virtual absl::StatusOr<Opened> OpenExecution(const agent::v1::Open& open,
                                               ExecutionStream* stream) = 0;
  virtual agent::v1::Report MakeReport() const = 0;
  virtual void SetBackstop(Duration left) = 0;
  virtual void OnLinkClosed(Link* link) = 0;
};

class Link final : public LinkSocketHandler, public std::enable_shared_from_this<Link> {
 public:
  // `owner` outlives the link.
  Link(std::shared_ptr<LinkSocket> socket, LinkOwner* owner, Duration handshake_bound);
  ~Link() override;

  void Start();
  // RESET on stream 0, then the end. Idempotent.
  void Refuse(const absl::Status& why);
  // The end, at once and without a word.
  void Drop();
  bool proven() const { return state_ == State::kOpen; }
  Time since() const { return since_; }

  void OnUpgraded() override;
  void OnLife() override { last_life_ = Now(); }
  bool OnMessage(std::string_view message) override;
  std::optional<Outgoing> NextOutgoing() override;
  void OnClosed() override;

 private:
  enum class State { kUpgrade, kHello, kOpen, kClosing };
  class Stream;
  friend class Stream;

  absl::Status OnFrame(const wire::Frame& frame);
  absl::Status OnControl(const wire::Frame& frame);
  absl::Status OnHello(const agent::v1::BrokerHello& hello);
  void OnHeartbeat(const agent::v1::Heartbeat& heartbeat);
  absl::Status OnOpen(const wire::Frame& frame);
  absl::Status OnStreamFrame(const wire::Frame& frame, Stream& stream);
  absl::Status OnCommand(std::string_view payload, Stream& stream);
  void SendControl(const agent::v1::Control& control);
  void Push(std::string frame);
  void SendReset(uint32_t stream, const absl::Status& why, const agent::v1::Ended* ended);
  std::optional<Outgoing> NextOf(Stream& stream);
  void ForgetStream(uint32_t id);
  void Beat();
  void LeaveAll();
  void EndSoon();
  void Arm(Time at, void (Link::*then)());
  void OnHandshakeBound();

  LinkOwner* const owner_;
  const Duration handshake_bound_;
  std::shared_ptr<LinkSocket> socket_;
  const Time since_;
  State state_ = State::kUpgrade;
  std::string agent_nonce_;
  std::string boot_id_;
  wire::StreamTable table_;
  wire::SendQueue queue_;
  std::unordered_map<uint32_t, std::unique_ptr<Stream>> streams_;
  bool reading_paused_ = false;
  AgentTimer timer_;  // handshake bound, then heartbeats, then the bound of closing
  Duration interval_{0};
  Time last_life_{};
  Time next_beat_{};
  uint64_t beat_sequence_ = 0;
};

}  // namespace sandbroker::guest

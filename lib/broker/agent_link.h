// One connection to the agent of one sandbox, as the broker sees it. lib/link implements it over
// Beast; tests implement it with scripts. Loop thread only, callbacks included.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/async/cancel.h"
#include "lib/base/bytes.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/signing.h"
#include "sandbroker/agent/v1/link.pb.h"

namespace sandbroker::broker {

namespace agent = ::sandbroker::agent::v1;

struct AgentInfo {
  std::string boot_id;
  std::vector<std::string> features;
  agent::Limits limits;
  std::string agent_version;
  // SHA-256 of the certificate it showed, in hex; empty on a unix socket.
  std::string fingerprint;
};

// What arrives on one stream. After OnEnd, OnReset or OnLinkLost nothing more comes. A handler may
// destroy its stream inside any callback.
class AgentStreamHandler {
 public:
  virtual ~AgentStreamHandler() = default;
  virtual void OnEvent(const agent::Event& event) = 0;
  // `fd` is 1 or 2. Give the bytes back as credit with AgentStream::Consumed.
  virtual void OnData(uint64_t offset, int fd, SharedBytes data) = 0;
  // The agent takes more input: AgentStream::InputRoom has grown.
  virtual void OnInputRoom() = 0;
  virtual void OnEnd(const agent::Ended& ended) = 0;
  virtual void OnReset(const agent::Reset& reset) = 0;
  virtual void OnLinkLost(const absl::Status& why) = 0;
};

// Destroying it before an end tells the agent that the reader is lost.
class AgentStream {
 public:
  virtual ~AgentStream() = default;
  virtual void Send(const agent::Command& command) = 0;
  // Bytes of input that may be sent now.
  virtual uint64_t InputRoom() const = 0;
  // At most InputRoom bytes.
  virtual void SendInput(uint64_t offset, SharedBytes data) = 0;
  // `bytes` of output have left this process: the agent may send as many again.
  virtual void Consumed(uint64_t bytes) = 0;
  virtual void Ack(uint64_t offset) = 0;
};

class AgentLink {
 public:
  virtual ~AgentLink() = default;
  virtual const AgentInfo& info() const = 0;
  // `handler` outlives the stream. `window` is the output the agent may have under way.
  virtual std::unique_ptr<AgentStream> Open(const agent::Open& open, uint64_t window,
                                            AgentStreamHandler* handler) = 0;
  // Answers once; with the link's error if it is lost first.
  virtual void Bind(const agent::Bind& bind, std::function<void(absl::Status)> done) = 0;
  virtual void Query(std::function<void(absl::StatusOr<agent::Report>)> done) = 0;
  // Carried by every later heartbeat, relative to its time of sending. One goes out at once.
  virtual void SetBackstop(Time until) = 0;
  // Ends the link; streams get OnLinkLost. Idempotent.
  virtual void Close(const absl::Status& why) = 0;
  virtual bool open() const = 0;
};

// How to reach an agent, and how to prove oneself to it.
struct DialTarget {
  // A unix socket, e.g. "/proc/self/fd/12/agent.sock", with
  std::string unix_path;
  std::string secret;  // wire::kSecretSize bytes
  // A different boot id is refused; empty takes any.
  std::string expected_boot_id;
  // Cancelling ends the dial with CANCELLED; a link that is up already is not touched.
  CancelToken cancel = {};
  // Instead of the first two, TLS on TCP: an IP address (IPv6 without brackets) or a host name, and
  // the broker's Ed25519 key, whose public part the agent was started with.
  std::string host = {};
  uint16_t port = 0;
  std::shared_ptr<const SigningKey> signing_key = {};
  // AgentInfo::fingerprint of an earlier link to the same incarnation; another certificate is
  // refused. Empty takes any: then it is the address alone that says which agent this is.
  std::string expected_fingerprint = {};

  bool over_tls() const { return !host.empty(); }
};

class AgentDialer {
 public:
  virtual ~AgentDialer() = default;
  // Answers once, within `bound`. An error that has metadata `connection` says that no agent was
  // met there: "refused" (nobody listens), "gone" (it broke before the proof), "unanswered",
  // "foreign" (something else answers). Over
  // TLS that may mean that the address is another's by now. `on_lost` runs once, when an
  // established link is over for whatever reason but Close. `peer_pid` is the agent's pid on this
  // host (SO_PEERCRED), 0 if unknown; `peer_pidfd` the same as the kernel keeps it, which is never
  // another process; invalid before Linux 6.5.
  struct Dialed {
    std::shared_ptr<AgentLink> link;
    int peer_pid = 0;
    UniqueFd peer_pidfd = {};
  };
  virtual void Dial(const DialTarget& target, Duration bound,
                    std::function<void(const absl::Status& why)> on_lost,
                    std::function<void(absl::StatusOr<Dialed>)> done) = 0;
};

}  // namespace sandbroker::broker

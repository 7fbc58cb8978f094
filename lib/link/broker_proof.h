// How the two ends of a link prove themselves to each other, as the broker does it: by the
// sandbox's secret on a unix socket, by signatures over TLS. One per link. Pure; loop thread only.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "lib/broker/agent_link.h"

namespace sandbroker::link {

class BrokerProof {
 public:
  // `certificate` (DER) is what the agent's TLS showed; empty on a unix socket.
  BrokerProof(const broker::DialTarget& target, std::string certificate);

  // Fills nonce and proof of the answer to `hello`. An error: do not answer at all.
  absl::Status Prove(const broker::agent::AgentHello& hello, broker::agent::BrokerHello* answer);
  // Whether who answers is who said that hello.
  absl::Status Check(const broker::agent::AgentProof& proof) const;

  // SHA-256 of the certificate, in hex.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  const broker::DialTarget target_;
  const bool tls_;
  const std::string certificate_;
  std::string certificate_hash_;
  std::string fingerprint_;
  std::string agent_nonce_;
  std::string broker_nonce_;
  std::string boot_id_;
};

}  // namespace sandbroker::link

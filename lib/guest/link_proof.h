// How the two ends of a link prove themselves to each other, as the agent does it: by a secret on a
// unix socket, by signatures over TLS. Made at start, never changed; agent thread only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/certificate.h"
#include "sandbroker/agent/v1/link.pb.h"

namespace sandbroker::guest {

class LinkProof {
 public:
  virtual ~LinkProof() = default;
  // What answers a broker that has proved itself; UNAUTHENTICATED to any other.
  virtual absl::StatusOr<agent::v1::AgentProof> Answer(const agent::v1::BrokerHello& hello,
                                                       std::string_view agent_nonce,
                                                       std::string_view boot_id) const = 0;
};

std::unique_ptr<LinkProof> ProveBySecret(std::string secret);
// `brokers`: whose signature is taken. `own` is what TLS shows.
std::unique_ptr<LinkProof> ProveBySignature(std::vector<VerifyKey> brokers, Identity own);

}  // namespace sandbroker::guest

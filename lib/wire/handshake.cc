#include "lib/wire/handshake.h"

#include "lib/base/crypto.h"

namespace sandbroker::wire {

std::string MakeProof(Side side, std::string_view secret, std::string_view agent_nonce,
                      std::string_view broker_nonce, std::string_view boot_id) {
  FieldList fields(side == Side::kBroker ? "sandbroker.link.1 broker" : "sandbroker.link.1 agent");
  fields.Add(agent_nonce).Add(broker_nonce).Add(boot_id);
  return HmacSha256(secret, fields.bytes());
}

absl::Status CheckProof(Side side, std::string_view proof, std::string_view secret,
                        std::string_view agent_nonce, std::string_view broker_nonce,
                        std::string_view boot_id) {
  if (agent_nonce.size() != kNonceSize || broker_nonce.size() != kNonceSize) {
    return absl::UnauthenticatedError("link: nonce is not 32 bytes");
  }
  const std::string wanted = MakeProof(side, secret, agent_nonce, broker_nonce, boot_id);
  if (!ConstantTimeEquals(proof, wanted)) {
    return absl::UnauthenticatedError("link: proof does not match this sandbox's secret");
  }
  return absl::OkStatus();
}

}  // namespace sandbroker::wire

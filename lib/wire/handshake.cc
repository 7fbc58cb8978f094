#include "lib/wire/handshake.h"

#include "lib/base/crypto.h"
#include "lib/base/status.h"

namespace sandbroker::wire {
namespace {

constexpr size_t kHashSize = 32;

std::string Signed(Side side, const TlsFacts& facts) {
  FieldList fields(side == Side::kBroker ? "sandbroker.link.1 broker tls"
                                         : "sandbroker.link.1 agent tls");
  fields.Add(facts.agent_nonce).Add(facts.broker_nonce).Add(facts.boot_id);
  return fields.Add(facts.certificate_hash).bytes();
}

bool GoodNonces(std::string_view agent_nonce, std::string_view broker_nonce) {
  return agent_nonce.size() == kNonceSize && broker_nonce.size() == kNonceSize;
}

}  // namespace

std::string MakeProof(Side side, std::string_view secret, std::string_view agent_nonce,
                      std::string_view broker_nonce, std::string_view boot_id) {
  FieldList fields(side == Side::kBroker ? "sandbroker.link.1 broker" : "sandbroker.link.1 agent");
  fields.Add(agent_nonce).Add(broker_nonce).Add(boot_id);
  return HmacSha256(secret, fields.bytes());
}

absl::Status CheckProof(Side side, std::string_view proof, std::string_view secret,
                        std::string_view agent_nonce, std::string_view broker_nonce,
                        std::string_view boot_id) {
  if (!GoodNonces(agent_nonce, broker_nonce)) {
    return absl::UnauthenticatedError("link: nonce is not 32 bytes");
  }
  const std::string wanted = MakeProof(side, secret, agent_nonce, broker_nonce, boot_id);
  if (!ConstantTimeEquals(proof, wanted)) {
    return absl::UnauthenticatedError("link: proof does not match this sandbox's secret");
  }
  return absl::OkStatus();
}

std::string MakeSignature(Side side, const SigningKey& key, const TlsFacts& facts) {
  return key.Sign(Signed(side, facts));
}

absl::Status CheckSignature(Side side, std::string_view signature,
                            const std::vector<VerifyKey>& keys, const TlsFacts& facts) {
  if (!GoodNonces(facts.agent_nonce, facts.broker_nonce)) {
    return MakeError(Reason::kUnauthenticated, "link: nonce is not 32 bytes");
  }
  if (facts.certificate_hash.size() != kHashSize) {
    return MakeError(Reason::kUnauthenticated, "link: no certificate was shown");
  }
  const std::string message = Signed(side, facts);
  for (const VerifyKey& key : keys) {
    if (key.Verify(message, signature)) return absl::OkStatus();
  }
  return MakeError(Reason::kUnauthenticated, "link: no signature by a key that is trusted here");
}

}  // namespace sandbroker::wire

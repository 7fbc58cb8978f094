#include "lib/guest/link_proof.h"

#include <utility>

#include "lib/base/crypto.h"
#include "lib/base/status.h"
#include "lib/wire/handshake.h"

namespace sandbroker::guest {
namespace {

using agent::v1::AgentProof;
using agent::v1::BrokerHello;

class SecretProof final : public LinkProof {
 public:
  explicit SecretProof(std::string secret) : secret_(std::move(secret)) {}

  absl::StatusOr<AgentProof> Answer(const BrokerHello& hello, std::string_view agent_nonce,
                                    std::string_view boot_id) const override {
    SANDBROKER_RETURN_IF_ERROR(wire::CheckProof(wire::Side::kBroker, hello.proof(), secret_,
                                                agent_nonce, hello.nonce(), boot_id));
    AgentProof proof;
    proof.set_proof(
        wire::MakeProof(wire::Side::kAgent, secret_, agent_nonce, hello.nonce(), boot_id));
    return proof;
  }

 private:
  const std::string secret_;
};

class SignatureProof final : public LinkProof {
 public:
  SignatureProof(std::vector<VerifyKey> brokers, Identity own)
      : brokers_(std::move(brokers)),
        key_(std::move(own.key)),
        certificate_hash_(Sha256(own.certificate)) {}

  absl::StatusOr<AgentProof> Answer(const BrokerHello& hello, std::string_view agent_nonce,
                                    std::string_view boot_id) const override {
    const wire::TlsFacts facts{agent_nonce, hello.nonce(), boot_id, certificate_hash_};
    SANDBROKER_RETURN_IF_ERROR(
        wire::CheckSignature(wire::Side::kBroker, hello.signature(), brokers_, facts));
    AgentProof proof;
    proof.set_signature(wire::MakeSignature(wire::Side::kAgent, key_, facts));
    return proof;
  }

 private:
  const std::vector<VerifyKey> brokers_;
  const SigningKey key_;
  const std::string certificate_hash_;
};

}  // namespace

std::unique_ptr<LinkProof> ProveBySecret(std::string secret) {
  return std::make_unique<SecretProof>(std::move(secret));
}

std::unique_ptr<LinkProof> ProveBySignature(std::vector<VerifyKey> brokers, Identity own) {
  return std::make_unique<SignatureProof>(std::move(brokers), std::move(own));
}

}  // namespace sandbroker::guest

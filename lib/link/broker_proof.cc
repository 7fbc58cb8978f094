#include "lib/link/broker_proof.h"

#include <utility>

#include "lib/base/crypto.h"
#include "lib/base/status.h"
#include "lib/wire/handshake.h"

namespace sandbroker::link {
namespace {

using wire::Side;

absl::Status OtherIncarnation() {
  return MakeError(Reason::kIncarnationChanged, "another incarnation answers there");
}

}  // namespace

BrokerProof::BrokerProof(const broker::DialTarget& target, std::string certificate)
    : target_(target), tls_(target.over_tls()), certificate_(std::move(certificate)) {
  if (certificate_.empty()) return;
  certificate_hash_ = Sha256(certificate_);
  fingerprint_ = HexEncode(certificate_hash_);
}

absl::Status BrokerProof::Prove(const broker::agent::AgentHello& hello,
                                broker::agent::BrokerHello* answer) {
  if (!target_.expected_boot_id.empty() && hello.boot_id() != target_.expected_boot_id) {
    return OtherIncarnation();
  }
  if (!target_.expected_fingerprint.empty() && fingerprint_ != target_.expected_fingerprint) {
    return OtherIncarnation();
  }
  agent_nonce_ = hello.nonce();
  boot_id_ = hello.boot_id();
  broker_nonce_ = RandomBytes(wire::kNonceSize);
  answer->set_nonce(broker_nonce_);
  if (tls_) {
    answer->set_signature(
        wire::MakeSignature(Side::kBroker, *target_.signing_key,
                            {agent_nonce_, broker_nonce_, boot_id_, certificate_hash_}));
  } else {
    answer->set_proof(
        wire::MakeProof(Side::kBroker, target_.secret, agent_nonce_, broker_nonce_, boot_id_));
  }
  return absl::OkStatus();
}

absl::Status BrokerProof::Check(const broker::agent::AgentProof& proof) const {
  if (!tls_) {
    return wire::CheckProof(Side::kAgent, proof.proof(), target_.secret, agent_nonce_,
                            broker_nonce_, boot_id_);
  }
  const auto key = VerifyKey::OfCertificate(certificate_);
  if (!key.ok()) return key.status();
  return wire::CheckSignature(Side::kAgent, proof.signature(), {*key},
                              {agent_nonce_, broker_nonce_, boot_id_, certificate_hash_});
}

}  // namespace sandbroker::link

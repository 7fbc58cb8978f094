// The mutual proof: bound to the side, the secret, both nonces and the boot id.
#include "lib/wire/handshake.h"

#include <gtest/gtest.h>

#include <string>

namespace sandbroker::wire {
namespace {

const std::string kSecret(kSecretSize, 's');
const std::string kAgentNonce(kNonceSize, 'a');
const std::string kBrokerNonce(kNonceSize, 'b');

std::string Proof(Side side) { return MakeProof(side, kSecret, kAgentNonce, kBrokerNonce, "boot"); }

TEST(Handshake, OwnProof_IsAcceptedForEachSide) {
  for (const Side side : {Side::kBroker, Side::kAgent}) {
    EXPECT_EQ(Proof(side).size(), 32u);
    EXPECT_TRUE(CheckProof(side, Proof(side), kSecret, kAgentNonce, kBrokerNonce, "boot").ok());
  }
}

TEST(Handshake, ProofEchoedBack_IsRefused) {
  EXPECT_NE(Proof(Side::kBroker), Proof(Side::kAgent));
  const auto status =
      CheckProof(Side::kAgent, Proof(Side::kBroker), kSecret, kAgentNonce, kBrokerNonce, "boot");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
}

TEST(Handshake, EveryInput_ChangesTheProof) {
  const std::string proof = Proof(Side::kBroker);
  const std::string other(kNonceSize, 'x');
  const auto check = [&](const std::string& secret, const std::string& agent_nonce,
                         const std::string& broker_nonce, const std::string& boot_id) {
    return CheckProof(Side::kBroker, proof, secret, agent_nonce, broker_nonce, boot_id).code();
  };
  constexpr auto kRefused = absl::StatusCode::kUnauthenticated;
  EXPECT_EQ(check(kSecret, kAgentNonce, kBrokerNonce, "boot"), absl::StatusCode::kOk);
  EXPECT_EQ(check(std::string(kSecretSize, 'x'), kAgentNonce, kBrokerNonce, "boot"), kRefused);
  EXPECT_EQ(check(kSecret, other, kBrokerNonce, "boot"), kRefused);
  EXPECT_EQ(check(kSecret, kAgentNonce, other, "boot"), kRefused);
  EXPECT_EQ(check(kSecret, kAgentNonce, kBrokerNonce, "boot2"), kRefused);
  EXPECT_EQ(check(kSecret, kBrokerNonce, kAgentNonce, "boot"), kRefused);
}

TEST(Handshake, NonceOfAnotherSize_IsRefusedEvenWithItsRightProof) {
  for (const size_t size : {0, 31, 33}) {
    const std::string odd(size, 'n');
    const std::string proof = MakeProof(Side::kAgent, kSecret, odd, kBrokerNonce, "boot");
    EXPECT_EQ(CheckProof(Side::kAgent, proof, kSecret, odd, kBrokerNonce, "boot").code(),
              absl::StatusCode::kUnauthenticated);
    const std::string other = MakeProof(Side::kAgent, kSecret, kAgentNonce, odd, "boot");
    EXPECT_EQ(CheckProof(Side::kAgent, other, kSecret, kAgentNonce, odd, "boot").code(),
              absl::StatusCode::kUnauthenticated);
  }
}

TEST(Handshake, EmptyOrCutProof_IsRefused) {
  for (const std::string& proof : {std::string(), Proof(Side::kAgent).substr(0, 31)}) {
    EXPECT_EQ(CheckProof(Side::kAgent, proof, kSecret, kAgentNonce, kBrokerNonce, "boot").code(),
              absl::StatusCode::kUnauthenticated);
  }
}

}  // namespace
}  // namespace sandbroker::wire

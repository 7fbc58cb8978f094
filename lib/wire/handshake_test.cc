// The mutual proof: bound to the side, the secret or key, both nonces, the boot id, and over TLS to
// the agent's certificate.
#include "lib/wire/handshake.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/crypto.h"

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

constexpr auto kUnauthenticated = absl::StatusCode::kUnauthenticated;
const std::string kHash(32, 'h');
const TlsFacts kFacts{kAgentNonce, kBrokerNonce, "boot", kHash};

// Made by `openssl pkeyutl` of the fields below.
constexpr std::string_view kKnownSignature =
    "add5afabe6251f842bbbe152cc12ddd092ed357121ab7e1fa8b5a45ceceeb4e5"
    "bf990e3c4e7b9c8232a1e725ec08492430f698529a94a5f2fe49a73005014403";

// RFC 8032, 7.1, test 2.
SigningKey KnownKey() {
  return *SigningKey::FromPem(
      "-----BEGIN PRIVATE KEY-----\n"
      "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
      "-----END PRIVATE KEY-----\n");
}

absl::StatusCode Checked(const std::string& signature, const TlsFacts& facts) {
  return CheckSignature(Side::kBroker, signature, {KnownKey().verify_key()}, facts).code();
}

TEST(HandshakeTls, Signature_IsOverTheFieldsThatTheProtocolNames) {
  FieldList fields("sandbroker.link.1 broker tls");
  fields.Add(kAgentNonce).Add(kBrokerNonce).Add("boot").Add(kHash);
  EXPECT_EQ(MakeSignature(Side::kBroker, KnownKey(), kFacts), KnownKey().Sign(fields.bytes()));
  // Ed25519 has one signature a message: a change of the bytes signed is a change of the protocol.
  EXPECT_EQ(HexEncode(MakeSignature(Side::kBroker, KnownKey(), kFacts)), kKnownSignature);
}

TEST(HandshakeTls, OwnSignature_IsAcceptedForEachSideAndKind) {
  for (const KeyKind kind : {KeyKind::kEd25519, KeyKind::kP256}) {
    const SigningKey key = SigningKey::Make(kind);
    for (const Side side : {Side::kBroker, Side::kAgent}) {
      const std::string signature = MakeSignature(side, key, kFacts);
      EXPECT_TRUE(CheckSignature(side, signature, {key.verify_key()}, kFacts).ok());
    }
  }
}

TEST(HandshakeTls, SignatureEchoedBack_IsRefused) {
  const SigningKey key = KnownKey();
  const std::string signature = MakeSignature(Side::kBroker, key, kFacts);
  EXPECT_EQ(CheckSignature(Side::kAgent, signature, {key.verify_key()}, kFacts).code(),
            kUnauthenticated);
}

TEST(HandshakeTls, EveryFieldAlteredOnce_IsRefused) {
  const std::string signature = MakeSignature(Side::kBroker, KnownKey(), kFacts);
  EXPECT_EQ(Checked(signature, kFacts), absl::StatusCode::kOk);
  const std::string other(kNonceSize, 'x');
  EXPECT_EQ(Checked(signature, {other, kBrokerNonce, "boot", kHash}), kUnauthenticated);
  EXPECT_EQ(Checked(signature, {kAgentNonce, other, "boot", kHash}), kUnauthenticated);
  EXPECT_EQ(Checked(signature, {kBrokerNonce, kAgentNonce, "boot", kHash}), kUnauthenticated);
  EXPECT_EQ(Checked(signature, {kAgentNonce, kBrokerNonce, "boo", kHash}), kUnauthenticated);
  EXPECT_EQ(Checked(signature, {kAgentNonce, kBrokerNonce, "boot", other}), kUnauthenticated);
  for (size_t i = 0; i < signature.size(); ++i) {
    std::string changed = signature;
    changed[i] ^= 1;
    EXPECT_EQ(Checked(changed, kFacts), kUnauthenticated) << i;
  }
}

TEST(HandshakeTls, OddSizes_AreRefusedEvenWithTheirRightSignature) {
  const std::string odd(31, 'o');
  for (const TlsFacts& facts :
       {TlsFacts{odd, kBrokerNonce, "boot", kHash}, TlsFacts{kAgentNonce, odd, "boot", kHash},
        TlsFacts{kAgentNonce, kBrokerNonce, "boot", ""}}) {
    EXPECT_EQ(Checked(MakeSignature(Side::kBroker, KnownKey(), facts), facts), kUnauthenticated);
  }
}

TEST(HandshakeTls, AnyOfSeveralKeys_IsTakenAndNoOther) {
  const SigningKey old_key = SigningKey::Make(KeyKind::kEd25519);
  const std::vector<VerifyKey> keys = {old_key.verify_key(), KnownKey().verify_key()};
  for (const SigningKey& key : {old_key, KnownKey()}) {
    const std::string signature = MakeSignature(Side::kBroker, key, kFacts);
    EXPECT_TRUE(CheckSignature(Side::kBroker, signature, keys, kFacts).ok());
  }
  const std::string stranger =
      MakeSignature(Side::kBroker, SigningKey::Make(KeyKind::kEd25519), kFacts);
  EXPECT_EQ(CheckSignature(Side::kBroker, stranger, keys, kFacts).code(), kUnauthenticated);
  EXPECT_EQ(CheckSignature(Side::kBroker, stranger, {}, kFacts).code(), kUnauthenticated);
  EXPECT_EQ(CheckSignature(Side::kBroker, "", keys, kFacts).code(), kUnauthenticated);
}

}  // namespace
}  // namespace sandbroker::wire

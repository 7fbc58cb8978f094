// Keys: known vectors, what is taken for a key, and that a signature is of one message by one key.
#include "lib/base/signing.h"

#include <gtest/gtest.h>

#include "lib/base/certificate.h"
#include "lib/base/crypto.h"
#include "lib/base/status.h"

namespace sandbroker {
namespace {

// RFC 8032, 7.1, test 2: the message is the byte 0x72.
constexpr std::string_view kPrivatePem =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
    "-----END PRIVATE KEY-----\n";
constexpr std::string_view kPublicPem =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
    "-----END PUBLIC KEY-----\n";
constexpr std::string_view kPublicBase64 = "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=";
constexpr std::string_view kSignature =
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";

std::string WhyNot(std::string_view text) {
  const auto keys = VerifyKey::ParseList(text);
  return keys.ok() ? "taken" : std::string(MessageOf(keys.status()));
}

TEST(Signing, Ed25519_MatchesRfc8032) {
  const auto key = SigningKey::FromPem(kPrivatePem);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(HexEncode(key->Sign("\x72")), kSignature);
  EXPECT_EQ(key->PublicBase64(), kPublicBase64);
  EXPECT_EQ(key->ToPem(), kPrivatePem);
}

TEST(Signing, PublicKey_IsTakenAsPemAndAsBase64) {
  const std::string signature = SigningKey::FromPem(kPrivatePem)->Sign("m");
  for (const std::string_view text : {kPublicPem, kPublicBase64}) {
    const auto keys = VerifyKey::ParseList(text);
    ASSERT_TRUE(keys.ok()) << keys.status();
    ASSERT_EQ(keys->size(), 1u);
    EXPECT_TRUE(keys->front().Verify("m", signature));
  }
}

TEST(Signing, Signature_IsOfOneMessageByOneKey) {
  for (const KeyKind kind : {KeyKind::kEd25519, KeyKind::kP256}) {
    const SigningKey key = SigningKey::Make(kind);
    std::string signature = key.Sign("message");
    EXPECT_TRUE(key.verify_key().Verify("message", signature));
    EXPECT_FALSE(key.verify_key().Verify("messagf", signature));
    EXPECT_FALSE(key.verify_key().Verify("", signature));
    EXPECT_FALSE(SigningKey::Make(kind).verify_key().Verify("message", signature));
    EXPECT_FALSE(key.verify_key().Verify("message", ""));
    EXPECT_FALSE(key.verify_key().Verify("message", signature.substr(1)));
    signature[signature.size() / 2] ^= 1;
    EXPECT_FALSE(key.verify_key().Verify("message", signature));
  }
}

TEST(Signing, SeveralKeys_AreReadInAnyMixture) {
  const SigningKey other = SigningKey::Make(KeyKind::kEd25519);
  const std::string text = " " + other.PublicBase64() + ",\n" + std::string(kPublicPem) +
                           std::string(kPublicBase64) + "\n";
  const auto keys = VerifyKey::ParseList(text);
  ASSERT_TRUE(keys.ok()) << keys.status();
  ASSERT_EQ(keys->size(), 3u);
  EXPECT_TRUE(keys->at(0).Verify("m", other.Sign("m")));
  EXPECT_TRUE(keys->at(2).Verify("m", SigningKey::FromPem(kPrivatePem)->Sign("m")));
}

TEST(Signing, WhatIsNoPublicKey_IsRefusedWithItsReason) {
  EXPECT_EQ(WhyNot(" \n"), "public key: there is none");
  EXPECT_EQ(WhyNot("c2hvcnQ="), "public key: is neither PEM nor 32 bytes in base64");
  EXPECT_EQ(WhyNot(kPrivatePem), "public key: is a private key");
  EXPECT_EQ(WhyNot("-----BEGIN PUBLIC KEY-----\nMCow"), "public key: its PEM has no end");
  EXPECT_EQ(WhyNot("-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----"),
            "public key: its PEM can't be read");
  // The same 32 bytes, another last character.
  std::string odd(kPublicBase64);
  odd[odd.size() - 2] = 'x';
  EXPECT_EQ(WhyNot(odd), "public key: is neither PEM nor 32 bytes in base64");
  std::string many;
  for (size_t i = 0; i <= VerifyKey::kMaxKeys; ++i) many += std::string(kPublicBase64) + "\n";
  EXPECT_EQ(WhyNot(many), "public key: more than 16 of them");
}

TEST(Signing, KeyOfAnotherKind_IsRefused) {
  EXPECT_FALSE(SigningKey::FromPem(SigningKey::Make(KeyKind::kP256).ToPem()).ok());
  EXPECT_FALSE(SigningKey::FromPem(kPublicPem).ok());
  EXPECT_FALSE(SigningKey::FromPem("").ok());
}

TEST(Certificate, OwnOne_HoldsItsKeyAndIsNewEachTime) {
  const Identity identity = MakeIdentity();
  const auto key = VerifyKey::OfCertificate(identity.certificate);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_TRUE(key->Verify("m", identity.key.Sign("m")));
  const Identity other = MakeIdentity();
  EXPECT_NE(other.certificate, identity.certificate);
  EXPECT_FALSE(key->Verify("m", other.key.Sign("m")));
}

TEST(Certificate, WhatIsNone_HasNoKey) {
  EXPECT_FALSE(VerifyKey::OfCertificate("").ok());
  EXPECT_FALSE(VerifyKey::OfCertificate("certificate").ok());
  const std::string whole = MakeIdentity().certificate;
  EXPECT_FALSE(VerifyKey::OfCertificate(whole.substr(0, whole.size() - 1)).ok());
}

}  // namespace
}  // namespace sandbroker

#include "lib/backend/kubernetes/secret_keys.h"

#include <gtest/gtest.h>

#include <string>

#include "lib/base/crypto.h"
#include "lib/base/status.h"

namespace sandbroker::kubernetes {
namespace {

SharedKeys NewKeys() { return {RandomBytes(32), SigningKey::Make(KeyKind::kEd25519)}; }

std::string WhyNot(const boost::json::object& secret) {
  return std::string(MessageOf(ReadSecret(secret, "keys").status()));
}

TEST(SecretKeys, WhatWasMade_IsReadBack) {
  const SharedKeys keys = NewKeys();
  const auto read = ReadSecret(SecretOf(keys, "keys"), "keys");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->handle_key, keys.handle_key);
  EXPECT_EQ(read->link_key.PublicBase64(), keys.link_key.PublicBase64());
}

TEST(SecretKeys, MissingOrDamagedKey_IsRefusedByName) {
  boost::json::object secret = SecretOf(NewKeys(), "keys");
  boost::json::object& data = secret.at("data").as_object();
  const boost::json::object good = data;
  data["handle.key"] = "c2hvcnQ=";
  EXPECT_EQ(WhyNot(secret).substr(0, 52), "Secret keys: handle.key does not have 32 bytes; put ");
  data["handle.key"] = "*";
  EXPECT_EQ(WhyNot(secret).substr(0, 37), "Secret keys: handle.key is not base64");
  data = good;
  data.erase("link.pem");
  EXPECT_EQ(WhyNot(secret).substr(0, 32), "Secret keys: link.pem is missing");
  data["link.pem"] = "bm8ga2V5";
  EXPECT_EQ(WhyNot(secret).substr(0, 22), "Secret keys: link.pem ");
  EXPECT_FALSE(WhyNot({}).empty());
  EXPECT_FALSE(WhyNot({{"data", 3}}).empty());
}

TEST(SecretKeys, ErrorsDoNotShowWhatTheSecretHolds) {
  const SharedKeys keys = NewKeys();
  boost::json::object secret = SecretOf(keys, "keys");
  secret.at("data").as_object()["link.pem"] = "c2VjcmV0LXRleHQ=";
  EXPECT_EQ(WhyNot(secret).find("secret-text"), std::string::npos);
}

}  // namespace
}  // namespace sandbroker::kubernetes

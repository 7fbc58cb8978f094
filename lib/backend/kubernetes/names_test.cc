#include "lib/backend/kubernetes/names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace sandbroker::kubernetes {
namespace {

bool NoneTaken(uint32_t) { return false; }

TEST(Names, ClaimName_IsAShortDnsLabel) {
  const std::string name = NewClaimName(NoneTaken);
  EXPECT_EQ(name.size(), 23u);
  EXPECT_TRUE(name.starts_with("sb-"));
  EXPECT_TRUE(std::all_of(name.begin(), name.end(), [](char c) {
    return c == '-' || (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
  }));
}

TEST(Names, ClaimNames_Differ) {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert(NewClaimName(NoneTaken));
  EXPECT_EQ(names.size(), 1000u);
}

// agent-sandbox.md 2.2: the pod's label sandbox-name-hash.
TEST(Names, NameHash_IsFnv1a32) {
  EXPECT_EQ(NameHash(""), 0x811c9dc5u);
  EXPECT_EQ(NameHash("a"), 0xe40c292cu);
  EXPECT_EQ(NameHash("foobar"), 0xbf9cf968u);
}

// Trap 16 of agent-sandbox.md 3.4.
TEST(Names, HashCollision_IsAvoided) {
  int asked = 0;
  uint32_t last = 0;
  const std::string name = NewClaimName([&](uint32_t hash) {
    last = hash;
    return ++asked <= 3;
  });
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(NameHash(name), last);
}

TEST(Names, HashCollision_NeverHangs) {
  int asked = 0;
  EXPECT_EQ(NewClaimName([&](uint32_t) { return ++asked > 0; }).size(), 23u);
  EXPECT_LE(asked, 8);
}

TEST(Names, ReceiptKey_IsCutToALabel) {
  const std::string key(64, 'a');
  EXPECT_EQ(LabelOfReceipt(key), std::string(63, 'a'));
  EXPECT_TRUE(IsLabelValue(LabelOfReceipt(key)));
  EXPECT_EQ(LabelOfReceipt("ab"), "ab");
}

TEST(Names, LabelValues) {
  for (const char* good : {"", "a", "A.b-c_9", "0"}) EXPECT_TRUE(IsLabelValue(good)) << good;
  for (const char* bad : {"-a", "a-", ".a", "a b", "a/b", "\xc3\xa4"}) {
    EXPECT_FALSE(IsLabelValue(bad)) << bad;
  }
  EXPECT_FALSE(IsLabelValue(std::string(64, 'a')));
}

}  // namespace
}  // namespace sandbroker::kubernetes

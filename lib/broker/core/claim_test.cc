#include "lib/broker/core/claim.h"

#include <gtest/gtest.h>

namespace sandbroker::broker {
namespace {

Claim At(int seconds, bool outage = false, const std::string& token = "t") {
  Claim claim;
  claim.tenant = "default";
  claim.until = WallTime(std::chrono::seconds(seconds));
  claim.outage_ttl = outage;
  claim.token = token;
  return claim;
}

TEST(MergeClaims, LaterEndOfAnother_StandsAndNothingIsWritten) {
  EXPECT_FALSE(MergeClaims(At(10), At(20), At(30)));
  EXPECT_FALSE(MergeClaims(At(10), At(20), At(20)));
}

TEST(MergeClaims, OwnLaterEnd_IsWrittenOnTop) {
  const auto merged = MergeClaims(At(10), At(30), At(20, false, "other"));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->until, At(30).until);
  EXPECT_EQ(merged->token, "other");  // a renewal puts no token back
}

TEST(MergeClaims, Restamp_PutsItsTokenOnTheOthersLease) {
  const auto merged = MergeClaims(At(10, false, "a"), At(10, false, "b"), At(20, false, "c"));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->until, At(20).until);
  EXPECT_EQ(merged->token, "b");
}

TEST(MergeClaims, RestampOfAnUnrenewedLease_MovesNothingBack) {
  const auto merged = MergeClaims(At(10, true, "a"), At(10, true, "b"), At(20, false, "a"));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->until, At(20).until);
  EXPECT_FALSE(merged->outage_ttl);
}

TEST(MergeClaims, TtlForAnOutage_IsNotGivenWhenSomebodyCameOrGaveIt) {
  EXPECT_FALSE(MergeClaims(At(10), At(30, true), At(20)));
  EXPECT_FALSE(MergeClaims(At(10), At(30, true), At(25, true)));
}

TEST(MergeClaims, TtlForAnOutage_IsGivenOnceAnotherHasOnlyRestamped) {
  const auto merged = MergeClaims(At(10), At(30, true), At(10, false, "other"));
  ASSERT_TRUE(merged);
  EXPECT_TRUE(merged->outage_ttl);
  EXPECT_EQ(merged->until, At(30).until);
}

TEST(MergeClaims, Activity_ClearsTheMarkAlsoOfALaterEnd) {
  const auto merged = MergeClaims(At(10), At(20), At(30, true));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->until, At(30).until);
  EXPECT_FALSE(merged->outage_ttl);
  EXPECT_FALSE(MergeClaims(At(20, true), At(20, true), At(20, false)));
}

}  // namespace
}  // namespace sandbroker::broker

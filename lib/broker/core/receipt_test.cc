#include "lib/broker/core/receipt.h"

#include <gtest/gtest.h>

namespace sandbroker::broker {
namespace {

using std::chrono::seconds;

const WallTime kNow{std::chrono::hours(9)};

Receipt Pending(const std::string& body) {
  return {Receipt::State::kPending, body, "token", "replica", kNow + seconds(10), ""};
}

TEST(Receipt, Text_RoundTripsAndRefusesDamage) {
  Receipt receipt = Pending(std::string(64, 'a'));
  receipt.state = Receipt::State::kBound;
  receipt.uid = "u1";
  const std::string text = FormatReceipt(receipt);
  const auto got = ParseReceipt(text);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(FormatReceipt(*got), text);
  EXPECT_FALSE(ParseReceipt("").ok());
  EXPECT_FALSE(ParseReceipt(text.substr(0, text.size() / 2)).ok());
  EXPECT_FALSE(ParseReceipt("version=2\n" + text.substr(10)).ok());
}

TEST(Receipt, Meet_FollowsTheTable) {
  const std::string body(64, 'a');
  const std::string other(64, 'b');
  EXPECT_EQ(Meet(std::nullopt, body, kNow, false), Meeting::kCreate);
  EXPECT_EQ(Meet(Pending(other), body, kNow, false), Meeting::kReused);
  EXPECT_EQ(Meet(Pending(body), body, kNow, false), Meeting::kWait);
  EXPECT_EQ(Meet(Pending(body), body, kNow, true), Meeting::kTake);
  EXPECT_EQ(Meet(Pending(body), body, kNow + seconds(10), false), Meeting::kTake);
  Receipt receipt = Pending(body);
  receipt.state = Receipt::State::kOpen;
  EXPECT_EQ(Meet(receipt, body, kNow, false), Meeting::kTake);
  receipt.state = Receipt::State::kBound;
  EXPECT_EQ(Meet(receipt, body, kNow, false), Meeting::kRepeat);
  receipt.state = Receipt::State::kEnded;
  EXPECT_EQ(Meet(receipt, body, kNow, false), Meeting::kGone);
}

TEST(Receipt, Sweep_EndsWhatIsGoneAndRemovesItOneRetentionLater) {
  Receipt receipt = Pending(std::string(64, 'a'));
  const Duration day = std::chrono::hours(24);
  const WallTime over = receipt.deadline + day;
  for (const auto state :
       {Receipt::State::kPending, Receipt::State::kOpen, Receipt::State::kEnded}) {
    receipt.state = state;
    EXPECT_EQ(DecideSweep(receipt, false, over - seconds(1), day), Sweep::kKeep);
    EXPECT_EQ(DecideSweep(receipt, false, over, day), Sweep::kRemove);
  }
  receipt.state = Receipt::State::kBound;
  EXPECT_EQ(DecideSweep(receipt, true, over, day), Sweep::kKeep);
  EXPECT_EQ(DecideSweep(receipt, false, kNow, day), Sweep::kEnd);
}

TEST(Receipt, RequestHash_CoversEveryFieldButTheId) {
  AcquireSpec base;
  const std::string hash = RequestHash(base);
  AcquireSpec same = base;
  same.request_id = "other";
  EXPECT_EQ(RequestHash(same), hash);
  std::vector<AcquireSpec> changed(8, base);
  changed[0].pool = "p";
  changed[1].labels["a"] = "b";
  changed[2].env.push_back({"A", "b"});
  changed[3].lease.ttl = seconds(1);
  changed[4].lease.keep_while_running = false;
  changed[5].min_remaining = seconds(1);
  changed[6].fallback = Fallback::kWait;
  changed[7].wait_bound = seconds(1);
  for (const AcquireSpec& spec : changed) EXPECT_NE(RequestHash(spec), hash);
  EXPECT_NE(ReceiptKey({"a", "t1"}, "r"), ReceiptKey({"a", "t2"}, "r"));
}

}  // namespace
}  // namespace sandbroker::broker

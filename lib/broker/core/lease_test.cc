#include "lib/broker/core/lease.h"

#include <gtest/gtest.h>

#include <random>

namespace sandbroker::broker {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const WallTime kStart{hours(1000)};

Lease Make(Duration ttl, Duration max_lifetime = hours(24)) {
  return Lease({ttl, max_lifetime, true}, {}, kStart);
}

TEST(Lease, New_IsWrittenAFourThirdsAheadAndBackedByTheBackstop) {
  const Lease lease = Make(minutes(9));
  EXPECT_EQ(lease.until(), kStart + minutes(12));
  EXPECT_EQ(lease.backstop(), kStart + minutes(22));
  EXPECT_EQ(Make(hours(1)).backstop(), kStart + minutes(140));
}

TEST(Lease, Activity_WritesAtMostOnceAThirdOfTheTtl) {
  Lease lease = Make(minutes(9));
  EXPECT_FALSE(lease.Activity(kStart + minutes(3)));
  const auto until = lease.Activity(kStart + minutes(3) + seconds(1));
  ASSERT_TRUE(until);
  EXPECT_EQ(*until, kStart + minutes(15) + seconds(1));
  lease.Written(*until);
  EXPECT_FALSE(lease.Activity(kStart + minutes(4)));
}

TEST(Lease, Written_NeverMovesBack) {
  Lease lease = Make(minutes(9));
  lease.Written(kStart);
  EXPECT_EQ(lease.until(), kStart + minutes(12));
}

TEST(Lease, MaxLifetime_CapsLeaseAndBackstopAndBeatsBusy) {
  Lease lease = Make(minutes(9), minutes(10));
  EXPECT_EQ(lease.until(), kStart + minutes(10));
  EXPECT_EQ(lease.backstop(), kStart + minutes(10));
  EXPECT_FALSE(lease.Activity(kStart + minutes(9)));
  EXPECT_EQ(lease.NextLook(), kStart + minutes(10));
  EXPECT_EQ(lease.Decide(kStart + minutes(10), Look::kBusy), Lease::Verdict::kTakeBack);
}

TEST(Lease, NextWarning_ComesAThirdAndATenthBeforeTheHardEnd) {
  const Lease lease = Make(minutes(30), minutes(60));
  EXPECT_EQ(lease.NextWarning(kStart), kStart + minutes(50));
  EXPECT_EQ(lease.NextWarning(kStart + minutes(50)), kStart + minutes(57));
  EXPECT_EQ(lease.NextWarning(kStart + minutes(57)), WallTime::max());
}

TEST(Lease, Decide_LooksBeforeItTakesBack) {
  const Lease lease = Make(seconds(30));  // until 40 s
  EXPECT_EQ(lease.Decide(kStart + seconds(44), Look::kIdle), Lease::Verdict::kNotYet);
  EXPECT_EQ(lease.Decide(kStart + seconds(45), Look::kIdle), Lease::Verdict::kTakeBack);
  EXPECT_EQ(lease.Decide(kStart + seconds(45), Look::kBusy), Lease::Verdict::kRenew);
  EXPECT_EQ(lease.Decide(kStart + seconds(45), Look::kUnreachable),
            Lease::Verdict::kWaitForBackstop);
  EXPECT_EQ(lease.Decide(lease.backstop(), Look::kUnreachable), Lease::Verdict::kTakeBack);
}

Lease Restored(WallTime until, bool outage_ttl = false) {
  return Lease({minutes(9), hours(24), true}, {}, kStart, until, outage_ttl);
}

TEST(Lease, Outage_GivesOneTtlOnceUntilRealActivity) {
  const WallTime back = kStart + hours(2);
  Lease lease = Restored(kStart + minutes(12));
  const auto until = lease.AfterOutage(back);
  ASSERT_TRUE(until);
  EXPECT_EQ(*until, back + minutes(9));
  lease.WrittenAfterOutage(*until);
  // Nobody came, and the broker died again: no second one.
  Lease again = Restored(*until, lease.outage_ttl());
  EXPECT_FALSE(again.AfterOutage(back + hours(1)));
  EXPECT_EQ(again.Decide(back + hours(1), Look::kIdle), Lease::Verdict::kTakeBack);
  // Somebody came: it is written although a whole ttl is left, and clears the mark.
  const auto active = lease.Activity(back);
  ASSERT_TRUE(active);
  lease.Written(*active);
  EXPECT_FALSE(lease.outage_ttl());
  EXPECT_FALSE(lease.Activity(back));
  EXPECT_TRUE(Restored(*active).AfterOutage(back + hours(1)));
}

TEST(Lease, Outage_LeavesALeaseThatHoldsAndNeverPassesTheHardEnd) {
  EXPECT_FALSE(Restored(kStart + minutes(12)).AfterOutage(kStart + minutes(11)));
  const Lease late = Restored(kStart + hours(23));
  EXPECT_EQ(late.AfterOutage(kStart + hours(24) - minutes(1)), late.hard_end());
  EXPECT_FALSE(late.AfterOutage(kStart + hours(24)));
  // A record that says more than can be true is cut.
  EXPECT_EQ(Restored(kStart + hours(100)).until(), kStart + hours(24));
}

TEST(Lease, See_TellsBusyFromIdleAndIdleFromUnreachable) {
  const Lease keeps = Make(seconds(30));
  EXPECT_EQ(keeps.See(true, std::nullopt), Look::kBusy);
  EXPECT_EQ(keeps.See(false, std::nullopt), Look::kUnreachable);
  EXPECT_EQ(keeps.See(false, AgentSays{0, 0}), Look::kIdle);
  EXPECT_EQ(keeps.See(false, AgentSays{0, 1}), Look::kBusy);  // another broker's stream
}

// T110: the field decides about a program that nobody is attached to, and about nothing else.
TEST(Lease, T110_ProgramNobodyIsAttachedTo_IsActivityOnlyByTheCallersWish) {
  const Lease keeps({seconds(30), hours(24), true}, {}, kStart);
  const Lease leaves({seconds(30), hours(24), false}, {}, kStart);
  EXPECT_EQ(keeps.See(false, AgentSays{1, 0}), Look::kBusy);
  EXPECT_EQ(leaves.See(false, AgentSays{1, 0}), Look::kIdle);
  EXPECT_EQ(leaves.See(false, AgentSays{1, 1}), Look::kBusy);
  EXPECT_EQ(leaves.See(true, std::nullopt), Look::kBusy);
}

TEST(Lease, Leaves_CountsToTheHardEnd) {
  const Lease lease = Make(minutes(1), minutes(10));
  EXPECT_TRUE(lease.Leaves(minutes(10), kStart));
  EXPECT_FALSE(lease.Leaves(minutes(10), kStart + seconds(1)));
  EXPECT_TRUE(lease.Leaves(minutes(4), kStart + minutes(6)));
}

TEST(Lease, EndOfAnotherReplica_IsTakenOverAndNeverMovesItBack) {
  Lease lease = Make(minutes(10));
  const WallTime until = lease.until();
  lease.TakeOver(until - seconds(1), true);
  EXPECT_EQ(lease.until(), until);
  EXPECT_FALSE(lease.outage_ttl());
  lease.TakeOver(until + minutes(1), true);
  EXPECT_EQ(lease.until(), until + minutes(1));
  EXPECT_TRUE(lease.outage_ttl());
  lease.TakeOver(until + minutes(1), false);  // somebody came
  lease.TakeOver(until + minutes(1), true);   // told late
  EXPECT_FALSE(lease.outage_ttl());
}

TEST(Lease, WhereOthersLook_ItIsWokenForAheadOfItsEnd) {
  LeaseSettings settings;
  settings.others_look = true;
  const Lease shared({seconds(30), hours(24), true}, settings, kStart);
  const WallTime ahead = shared.until() - seconds(20);
  EXPECT_EQ(shared.NextWake(kStart), ahead);
  EXPECT_TRUE(shared.Activity(ahead));  // what comes then moves it
  EXPECT_EQ(shared.NextWake(ahead), shared.NextLook());
  EXPECT_TRUE(shared.KeepsAhead(ahead));
  EXPECT_FALSE(shared.KeepsAhead(shared.NextLook()));
  const Lease alone({seconds(30), hours(24), true}, {}, kStart);
  EXPECT_EQ(alone.NextWake(kStart), alone.NextLook());
  EXPECT_FALSE(alone.KeepsAhead(kStart));
}

TEST(Lease, RandomActivity_OnlyMovesForwardAndStaysBelowTheHardEnd) {
  std::mt19937 random(7);
  for (int run = 0; run < 200; ++run) {
    Lease lease = Make(seconds(1 + random() % 1000), hours(1));
    WallTime now = kStart;
    for (int step = 0; step < 200; ++step) {
      now += seconds(random() % 60);
      const WallTime before = lease.until();
      if (const auto until = lease.Activity(now)) lease.Written(*until);
      EXPECT_GE(lease.until(), before);
      EXPECT_LE(lease.until(), lease.hard_end());
      EXPECT_GE(lease.backstop(), std::min(lease.until(), lease.hard_end()));
      // The promise: after activity at least ttl is left, unless the hard end is nearer.
      EXPECT_GE(lease.until(), std::min(now + lease.spec().ttl, lease.hard_end()));
    }
  }
}

}  // namespace
}  // namespace sandbroker::broker

#include "tests/support/manual_scheduler.h"

#include <gtest/gtest.h>

#include <string>

namespace sandbroker {
namespace {

using std::chrono::seconds;

TEST(ManualScheduler, Posted_RunsInOrderAndOnlyWhenAsked) {
  ManualScheduler scheduler;
  std::string order;
  scheduler.Post([&] {
    order += "a";
    scheduler.Post([&] { order += "c"; });
  });
  scheduler.Post([&] { order += "b"; });
  EXPECT_EQ(order, "");
  EXPECT_EQ(scheduler.RunPosted(), 3u);
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(scheduler.RunPosted(), 0u);
}

TEST(ManualScheduler, Timers_RunAtTheirTimeInOrder) {
  ManualScheduler scheduler;
  const Time start = scheduler.Now();
  std::string order;
  Time seen;
  const auto late = scheduler.After(seconds(2), [&] { order += "2"; });
  const auto early = scheduler.After(seconds(1), [&] {
    order += "1";
    seen = scheduler.Now();
  });
  const auto same = scheduler.After(seconds(2), [&] { order += "3"; });
  scheduler.Advance(std::chrono::milliseconds(999));
  EXPECT_EQ(order, "");
  scheduler.Advance(seconds(5));
  EXPECT_EQ(order, "123");
  EXPECT_EQ(seen, start + seconds(1));
  EXPECT_EQ(scheduler.Now(), start + seconds(5) + std::chrono::milliseconds(999));
  EXPECT_EQ(scheduler.pending_timers(), 0u);
}

TEST(ManualScheduler, DestroyedTimer_DoesNotRun) {
  ManualScheduler scheduler;
  bool ran = false;
  scheduler.After(seconds(1), [&] { ran = true; }).reset();
  scheduler.Advance(seconds(2));
  EXPECT_FALSE(ran);
}

TEST(ManualScheduler, TimerMadeByATimer_RunsInTheSameAdvance) {
  ManualScheduler scheduler;
  int ran = 0;
  std::unique_ptr<Timer> second;
  const auto first =
      scheduler.After(seconds(1), [&] { second = scheduler.After(seconds(1), [&] { ++ran; }); });
  scheduler.Advance(seconds(2));
  EXPECT_EQ(ran, 1);
}

TEST(ManualScheduler, WallClock_MovesAlongAndJumpsAlone) {
  ManualScheduler scheduler;
  const WallTime wall = scheduler.WallNow();
  const Time now = scheduler.Now();
  scheduler.JumpWall(-seconds(10));
  scheduler.Advance(seconds(3));
  EXPECT_EQ(scheduler.WallNow(), wall - seconds(7));
  EXPECT_EQ(scheduler.Now(), now + seconds(3));
}

TEST(ManualScheduler, EndlessDelay_IsNeverDue) {
  ManualScheduler scheduler;
  bool ran = false;
  const auto timer = scheduler.After(Duration::max(), [&] { ran = true; });
  scheduler.Advance(std::chrono::hours(24 * 365));
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace sandbroker

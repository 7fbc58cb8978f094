#include "lib/broker/core/acquire_queue.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace sandbroker::broker {
namespace {

using Admission = AcquireQueue::Admission;
using std::chrono::seconds;

Time At(int s) { return Time(seconds(s)); }

TEST(AcquireQueue, Arrive_TakesReadyOneOrFollowsItsFallback) {
  AcquireQueue queue({2, 4, 1, 4});
  AcquireQueue::Ticket ticket = 0;
  EXPECT_EQ(queue.Arrive(Fallback::kWarmOnly, At(1), {1, 0, 0}, &ticket), Admission::kTake);
  EXPECT_EQ(queue.Arrive(Fallback::kWarmOnly, At(1), {0, 0, 0}, &ticket), Admission::kDry);
  EXPECT_EQ(queue.Arrive(Fallback::kWait, At(1), {0, 0, 0}, &ticket), Admission::kQueued);
  EXPECT_EQ(queue.Arrive(Fallback::kColdOk, At(1), {0, 0, 0}, &ticket), Admission::kFull);
}

TEST(AcquireQueue, Newcomer_NeverOvertakesAWaiter) {
  AcquireQueue queue({1, 4, 10, 4});
  AcquireQueue::Ticket first = 0;
  AcquireQueue::Ticket second = 0;
  queue.Arrive(Fallback::kWait, At(9), {0, 1, 0}, &first);
  EXPECT_EQ(queue.Arrive(Fallback::kColdOk, At(9), {1, 0, 0}, &second), Admission::kQueued);
  EXPECT_EQ(queue.OnReady(), first);
  EXPECT_EQ(queue.OnReady(), second);
  EXPECT_EQ(queue.OnReady(), std::nullopt);
}

TEST(AcquireQueue, Leave_AfterBeingServed_SaysSo) {
  AcquireQueue queue({1, 4, 10, 4});
  AcquireQueue::Ticket ticket = 0;
  queue.Arrive(Fallback::kWait, At(9), {}, &ticket);
  EXPECT_EQ(queue.OnReady(), ticket);
  EXPECT_FALSE(queue.Leave(ticket));
}

TEST(AcquireQueue, Expire_RemovesThoseWhoseTimeIsOver) {
  AcquireQueue queue({1, 4, 10, 4});
  AcquireQueue::Ticket a = 0;
  AcquireQueue::Ticket b = 0;
  queue.Arrive(Fallback::kWait, At(5), {}, &a);
  queue.Arrive(Fallback::kWait, At(3), {}, &b);
  EXPECT_EQ(queue.NextDeadline(), At(3));
  EXPECT_EQ(queue.Expire(At(3)), std::vector<AcquireQueue::Ticket>{b});
  EXPECT_EQ(queue.waiting(), 1u);
}

// T105, T114: a burst starts what was asked for and what the reserve wants, never more.
TEST(AcquireQueue, ToStart_CoversReserveAndColdCallersWithinLimits) {
  AcquireQueue queue({2, 10, 100, 4});
  EXPECT_EQ(queue.ToStart({0, 0, 0}), 2u);
  EXPECT_EQ(queue.ToStart({1, 1, 0}), 0u);
  AcquireQueue::Ticket ticket = 0;
  for (int i = 0; i < 3; ++i) queue.Arrive(Fallback::kWait, At(9), {}, &ticket);
  EXPECT_EQ(queue.ToStart({0, 2, 0}), 0u);  // waiting alone starts nothing more
  for (int i = 0; i < 3; ++i) queue.Arrive(Fallback::kColdOk, At(9), {}, &ticket);
  EXPECT_EQ(queue.ToStart({0, 2, 0}), 2u);  // at most max_starting at once
  EXPECT_EQ(queue.ToStart({0, 0, 9}), 1u);  // at most the pool's limit
  EXPECT_EQ(queue.ToStart({0, 0, 10}), 0u);
}

TEST(AcquireQueue, ToStart_ServesWaitersOfAPoolWithoutWarmOnes) {
  AcquireQueue queue({0, 10, 100, 4});
  EXPECT_EQ(queue.ToStart({0, 0, 0}), 0u);
  AcquireQueue::Ticket ticket = 0;
  for (int i = 0; i < 3; ++i) queue.Arrive(Fallback::kWait, At(9), {}, &ticket);
  EXPECT_EQ(queue.ToStart({0, 0, 0}), 1u);
  EXPECT_EQ(queue.ToStart({0, 1, 0}), 0u);
}

TEST(AcquireQueue, Room_IsForTheOldestWhoAcceptsAColdStart) {
  AcquireQueue queue({0, 10, 20, 10});
  AcquireQueue::Ticket waits = 0;
  AcquireQueue::Ticket cold = 0;
  EXPECT_EQ(queue.OnRoom(), std::nullopt);
  queue.Arrive(Fallback::kWait, At(10), {}, &waits);
  EXPECT_EQ(queue.OnRoom(), std::nullopt);
  queue.Arrive(Fallback::kColdOk, At(10), {}, &cold);
  EXPECT_EQ(queue.OnRoom(), cold);
  EXPECT_EQ(queue.OnRoom(), std::nullopt);
  EXPECT_EQ(queue.waiting(), 1u);
}

TEST(AcquireQueue, RandomTraffic_ServesEachTicketAtMostOnceInOrder) {
  std::mt19937 random(11);
  for (int run = 0; run < 200; ++run) {
    AcquireQueue queue({1, 50, 20, 4});
    std::set<AcquireQueue::Ticket> open;
    AcquireQueue::Ticket last_served = 0;
    for (int step = 0; step < 300; ++step) {
      AcquireQueue::Ticket ticket = 0;
      const Time now = At(step);
      switch (random() % 4) {
        case 0:
        case 1:
          if (queue.Arrive(Fallback::kWait, now + seconds(random() % 50), {}, &ticket) ==
              Admission::kQueued) {
            EXPECT_TRUE(open.insert(ticket).second);
          }
          break;
        case 2:
          if (const auto served = queue.OnReady()) {
            EXPECT_EQ(open.erase(*served), 1u);
            EXPECT_GT(*served, last_served);
            last_served = *served;
          }
          break;
        default:
          for (const auto t : queue.Expire(now)) EXPECT_EQ(open.erase(t), 1u);
      }
      EXPECT_EQ(queue.waiting(), open.size());
      EXPECT_LE(queue.waiting(), 20u);
    }
  }
}

}  // namespace
}  // namespace sandbroker::broker

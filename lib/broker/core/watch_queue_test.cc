#include "lib/broker/core/watch_queue.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace sandbroker::broker {
namespace {

using News = WatchQueue::News;

SandboxView At(int seconds, SandboxState state = SandboxState::kReady) {
  SandboxView view;
  view.state = state;
  view.lease.expire = WallTime(std::chrono::seconds(seconds));
  return view;
}

// Pops one that is there and tells of it.
News TellNext(WatchQueue* queue, const std::string& uid, const SandboxView& view) {
  const WatchQueue::Next next = queue->Pop();
  EXPECT_EQ(next.uid, uid);
  EXPECT_FALSE(next.removal);
  return queue->Tell(uid, view);
}

TEST(WatchQueue, Snapshot_ComesInItsOrderAndThenItsEnd) {
  WatchQueue queue({"b", "a"}, 10);
  EXPECT_EQ(TellNext(&queue, "b", At(1)), News::kAdded);
  EXPECT_EQ(TellNext(&queue, "a", At(1)), News::kAdded);
  EXPECT_EQ(queue.Pop().uid, "");
  EXPECT_TRUE(queue.empty());
}

TEST(WatchQueue, ManyChanges_WaitOnceAndTheNewestIsTold) {
  WatchQueue queue({}, 10);
  EXPECT_EQ(queue.Pop().uid, "");
  queue.OnChanged("a");
  EXPECT_EQ(TellNext(&queue, "a", At(1)), News::kAdded);
  for (int i = 0; i < 100; ++i) queue.OnChanged("a");
  EXPECT_EQ(TellNext(&queue, "a", At(101)), News::kModified);
  EXPECT_TRUE(queue.empty());
}

TEST(WatchQueue, ChangeBackToWhatWasTold_IsNoNews) {
  WatchQueue queue({"a"}, 10);
  EXPECT_EQ(TellNext(&queue, "a", At(1)), News::kAdded);
  EXPECT_EQ(queue.Pop().uid, "");
  queue.OnChanged("a");
  EXPECT_EQ(TellNext(&queue, "a", At(1)), News::kNothing);
  queue.OnChanged("a");
  EXPECT_EQ(TellNext(&queue, "a", At(1, SandboxState::kUnreachable)), News::kModified);
}

TEST(WatchQueue, RemovedBeforeItWasTold_NeverWas) {
  WatchQueue queue({}, 10);
  EXPECT_EQ(queue.Pop().uid, "");
  queue.OnChanged("a");
  queue.OnRemoved("a", {"handle", Reason::kSandboxGone, "released"});
  const WatchQueue::Next next = queue.Pop();
  EXPECT_EQ(next.uid, "a");  // the shell finds no such sandbox and passes over it
  EXPECT_FALSE(next.removal);
  EXPECT_TRUE(queue.empty());
}

TEST(WatchQueue, Removal_TakesThePlaceOfAChange) {
  WatchQueue queue({"a"}, 10);
  EXPECT_EQ(TellNext(&queue, "a", At(1)), News::kAdded);
  EXPECT_EQ(queue.Pop().uid, "");
  queue.OnChanged("a");
  queue.OnRemoved("a", {"handle", Reason::kLeaseExpired, "lease_expired"});
  const WatchQueue::Next next = queue.Pop();
  ASSERT_TRUE(next.removal);
  EXPECT_EQ(next.removal->reason, Reason::kLeaseExpired);
  EXPECT_TRUE(queue.empty());
}

TEST(WatchQueue, Limit_CountsWhatWaitsBesideTheSnapshot) {
  WatchQueue queue({"a", "b", "c"}, 2);
  EXPECT_FALSE(queue.overrun());
  queue.OnChanged("d");
  queue.OnChanged("e");
  queue.OnChanged("e");
  EXPECT_FALSE(queue.overrun());
  queue.OnChanged("f");
  EXPECT_TRUE(queue.overrun());
}

// Whatever happens in between: at the end the watcher knows exactly what is there.
TEST(WatchQueue, RandomChanges_AddUpToWhatIsThere) {
  std::mt19937 random(11);
  for (int run = 0; run < 300; ++run) {
    std::map<std::string, SandboxView> there;
    std::map<std::string, SandboxView> seen;
    int uids = 0;
    WatchQueue queue({}, 1000);
    const auto pop = [&] {
      const WatchQueue::Next next = queue.Pop();
      if (next.uid.empty()) return;
      if (next.removal) {
        EXPECT_EQ(seen.erase(next.uid), 1u);
        return;
      }
      const auto it = there.find(next.uid);
      if (it == there.end()) return;
      const News news = queue.Tell(next.uid, it->second);
      EXPECT_EQ(news == News::kAdded, seen.count(next.uid) == 0);
      seen[next.uid] = it->second;
    };
    for (int step = 0; step < 100; ++step) {
      const auto pick = [&] { return std::next(there.begin(), random() % there.size()); };
      switch (random() % 4) {
        case 0:
          there[std::to_string(++uids)] = At(step);
          queue.OnChanged(std::to_string(uids));
          break;
        case 1:
          if (there.empty()) break;
          {
            const auto it = pick();
            it->second = At(step);
            queue.OnChanged(it->first);
          }
          break;
        case 2:
          if (there.empty()) break;
          {
            const std::string uid = pick()->first;
            there.erase(uid);
            queue.OnRemoved(uid, {});
          }
          break;
        default:
          if (!queue.empty()) pop();
      }
    }
    while (!queue.empty()) pop();
    ASSERT_EQ(seen.size(), there.size());
    for (const auto& [uid, view] : there) {
      ASSERT_EQ(seen.count(uid), 1u);
      EXPECT_EQ(seen[uid].lease.expire, view.lease.expire);
    }
  }
}

}  // namespace
}  // namespace sandbroker::broker

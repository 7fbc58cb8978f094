// Many threads against the loop, the blocking pool and values that cross between them. Says little
// by itself; under the tsan preset it says that everything below lib/rpc is free of races.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "lib/async/blocking_pool.h"
#include "lib/async/loop.h"
#include "lib/async/task_scope.h"
#include "lib/base/bytes.h"
#include "lib/base/ids.h"
#include "lib/base/status.h"

namespace sandbroker {
namespace {

constexpr int kThreads = 8;
constexpr int kPosts = 2000;

template <class Fn>
void InThreads(Fn fn) {
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([fn, i] { fn(i); });
  for (std::thread& thread : threads) thread.join();
}

// Runs `fn` on the loop and waits for it.
template <class Fn>
auto OnLoop(Loop& loop, Fn fn) {
  const auto result = std::make_shared<std::promise<decltype(fn())>>();
  loop.Post([result, &fn] { result->set_value(fn()); });
  return result->get_future().get();
}

TEST(LoopStress, EveryThreadsPosts_RunOnceInItsOrderOnTheLoop) {
  Loop loop;
  loop.Start();
  std::vector<int> next(kThreads, 0);  // loop thread only
  int wrong = 0;
  InThreads([&](int thread) {
    EXPECT_FALSE(loop.InLoop());
    for (int i = 0; i < kPosts; ++i) {
      loop.Post([&, thread, i] {
        if (!loop.InLoop() || next[thread]++ != i) ++wrong;
      });
    }
  });
  EXPECT_EQ(OnLoop(loop, [&] { return wrong; }), 0);
  EXPECT_EQ(OnLoop(loop, [&] { return next; }), std::vector<int>(kThreads, kPosts));
  loop.Stop();
}

TEST(LoopStress, Stop_RunsWhatWasPostedBefore) {
  for (int round = 0; round < 20; ++round) {
    Loop loop;
    std::atomic<int> ran{0};
    loop.Start();
    InThreads([&](int) {
      for (int i = 0; i < 50; ++i) loop.Post([&] { ++ran; });
    });
    loop.Stop();
    loop.Stop();
    EXPECT_EQ(ran, kThreads * 50);
  }
}

TEST(LoopStress, TimersMadeAndDestroyedByPosts_RunOrDoNot) {
  Loop loop;
  loop.Start();
  std::vector<std::unique_ptr<Timer>> timers;  // loop thread only
  int after_its_end = 0;
  InThreads([&](int) {
    for (int i = 0; i < 300; ++i) {
      loop.Post([&, i] {
        auto alive = std::make_shared<bool>(true);
        auto timer = loop.After(std::chrono::microseconds(i % 5), [&, alive] {
          if (!*alive) ++after_its_end;
        });
        if (i % 3 == 0) {
          timer.reset();
          *alive = false;
        } else {
          timers.push_back(std::move(timer));
        }
      });
    }
  });
  const int wrong = OnLoop(loop, [&] {
    timers.clear();
    return after_its_end;
  });
  EXPECT_EQ(wrong, 0);
  loop.Stop();
}

Task<void> CountValue(OneShot<std::string> shot, int* arrived) {
  const std::string value = co_await shot.Wait();
  if (value == "value") ++*arrived;
}

class ScopeStress : public ::testing::Test {
 protected:
  ScopeStress() : scope_(loop_.context(), [this](auto, auto) { ++exceptions_; }) { loop_.Start(); }
  ~ScopeStress() override {
    Join();
    loop_.Stop();
  }
  void Join() {
    std::promise<void> joined;
    loop_.Post([&] { scope_.Join([&] { joined.set_value(); }); });
    joined.get_future().wait();
  }

  Loop loop_;
  int exceptions_ = 0;
  TaskScope scope_;
};

TEST_F(ScopeStress, OneShotsSetByOtherThreadsPosts_ArriveOnce) {
  int arrived = 0;
  InThreads([&](int) {
    for (int i = 0; i < 500; ++i) {
      OneShot<std::string> shot;
      loop_.Post([&, shot] { scope_.Spawn("count", CountValue(shot, &arrived)); });
      loop_.Post([shot] {
        shot.Set("value");
        shot.Set("late");
      });
    }
  });
  Join();
  EXPECT_EQ(OnLoop(loop_, [&] { return arrived; }), kThreads * 500);
  EXPECT_EQ(exceptions_, 0);
}

struct PoolTotals {
  int done = 0;
  int refused = 0;
};

Task<void> RunInPool(BlockingPool& pool, PoolTotals* totals, int number) {
  auto work = [number] { return std::vector<int>(100, number); };
  const absl::StatusOr<std::vector<int>> result = co_await pool.Run(work);
  if (result.ok() && result->back() == number) ++totals->done;
  if (ReasonOf(result.status()) == Reason::kCapacity) ++totals->refused;
}

TEST_F(ScopeStress, BlockingPool_EveryJobIsDoneOrRefused) {
  PoolTotals totals;
  {
    BlockingPool pool(loop_, 4, 64);
    InThreads([&](int thread) {
      for (int i = 0; i < 250; ++i) {
        const int number = thread * 1000 + i;
        loop_.Post([&, number] { scope_.Spawn("job", RunInPool(pool, &totals, number)); });
      }
    });
    Join();
    EXPECT_EQ(pool.pending(), 0u);
  }
  const PoolTotals seen = OnLoop(loop_, [&] { return totals; });
  EXPECT_EQ(seen.done + seen.refused, kThreads * 250);
  EXPECT_GT(seen.done, 0);
}

TEST(SharedBytesStress, CopiesOfOneStretch_AreReadAndDroppedByManyThreads) {
  const SharedBytes whole = SharedBytes::Own(std::string(100'000, 'x'));
  std::atomic<size_t> total{0};
  InThreads([&whole, &total](int thread) {
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): copying is what is tested.
    const SharedBytes mine = whole;
    for (size_t i = 0; i < 1000; ++i) {
      const SharedBytes slice = mine.Slice(i + static_cast<size_t>(thread), 10);
      total += slice.view() == "xxxxxxxxxx" ? 1 : 0;
    }
  });
  EXPECT_EQ(total, size_t{kThreads} * 1000);
}

TEST(IdsAndErrors, MadeByManyThreads_AreWhole) {
  std::atomic<int> wrong{0};
  InThreads([&wrong](int) {
    for (int i = 0; i < 500; ++i) {
      if (!IsValidId(NewId())) ++wrong;
      const absl::Status status = MakeError(Reason::kCapacity, "full");
      if (ReasonOf(status) != Reason::kCapacity) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sandbroker

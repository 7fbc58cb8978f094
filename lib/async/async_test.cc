#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <future>
#include <thread>
#include <vector>

#include "lib/async/blocking_pool.h"
#include "lib/async/cancel.h"
#include "lib/async/for_each.h"
#include "lib/async/loop.h"
#include "lib/async/task_scope.h"

namespace sandbroker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class AsyncTest : public ::testing::Test {
 protected:
  AsyncTest() : scope_(loop_.context(), [this](auto, auto what) { error_ = std::string(what); }) {
    loop_.Start();
  }
  ~AsyncTest() override {
    std::promise<void> joined;
    loop_.Post([&] { scope_.Join([&] { joined.set_value(); }); });
    joined.get_future().wait_for(seconds(10));
    loop_.Stop();
  }
  template <class T>
  T Get(std::promise<T>& promise) {
    auto future = promise.get_future();
    EXPECT_EQ(future.wait_for(seconds(10)), std::future_status::ready);
    return future.get();
  }

  Loop loop_;
  TaskScope scope_;
  std::string error_;
};

Task<void> WaitFor(OneShot<int> shot, std::promise<int>* out) {
  const int value = co_await shot.Wait();
  out->set_value(value);
}

TEST_F(AsyncTest, OneShot_SetBeforeAndAfterWait_BothArrive) {
  std::promise<int> before;
  std::promise<int> after;
  loop_.Post([&] {
    OneShot<int> set_first;
    set_first.Set(1);
    set_first.Set(9);  // only the first counts
    scope_.Spawn("before", WaitFor(set_first, &before));
    OneShot<int> set_later;
    scope_.Spawn("after", WaitFor(set_later, &after));
    loop_.Post([set_later] { set_later.Set(2); });
  });
  EXPECT_EQ(Get(before), 1);
  EXPECT_EQ(Get(after), 2);
}

TEST_F(AsyncTest, Timer_DestroyedBeforeItsTime_NeverRuns) {
  std::promise<int> done;
  bool ran = false;
  loop_.Post([&] {
    auto timer = loop_.After(milliseconds(0), [&] { ran = true; });
    timer.reset();
    auto last = std::make_shared<std::unique_ptr<Timer>>();
    *last = loop_.After(milliseconds(5), [&, last] { done.set_value(1); });
  });
  Get(done);
  EXPECT_FALSE(ran);
}

Task<void> RunBlocking(BlockingPool& pool, std::promise<absl::StatusOr<int>>* out) {
  auto work = [] { return 7; };
  auto result = co_await pool.Run(work);
  out->set_value(result);
}

TEST_F(AsyncTest, BlockingPool_FullPool_RefusesInsteadOfQueueing) {
  BlockingPool pool(loop_, 1, 1);
  std::promise<void> release;
  auto released = release.get_future().share();
  std::promise<absl::StatusOr<int>> refused;
  std::promise<int> finished;
  auto hold = [&]() -> Task<void> {
    auto work = [released] {
      released.wait();
      return 1;
    };
    auto result = co_await pool.Run(work);
    finished.set_value(*result);
  };
  loop_.Post([&] {
    scope_.Spawn("hold", hold());
    scope_.Spawn("refused", RunBlocking(pool, &refused));
  });
  EXPECT_EQ(ReasonOf(Get(refused).status()), Reason::kCapacity);
  release.set_value();
  EXPECT_EQ(Get(finished), 1);
  std::promise<absl::StatusOr<int>> again;
  loop_.Post([&] { scope_.Spawn("again", RunBlocking(pool, &again)); });
  EXPECT_EQ(*Get(again), 7);
}

Task<void> Throw() {
  throw std::runtime_error("broken task");
  co_return;
}

TEST_F(AsyncTest, TaskScope_EscapedException_IsReportedAndTheScopeGoesOn) {
  std::promise<int> joined;
  loop_.Post([&] {
    scope_.Spawn("throws", Throw());
    scope_.Join([&] { joined.set_value(1); });
  });
  Get(joined);
  EXPECT_EQ(error_, "broken task");
}

Task<void> Count(TaskScope& scope, std::vector<size_t>* begun, size_t* most, size_t fails,
                 std::promise<int>* done) {
  size_t running = 0;
  const auto one = [&](size_t i) -> Task<void> {
    begun->push_back(i);
    *most = std::max(*most, ++running);
    if (i == fails) {
      --running;
      throw std::runtime_error("one failed");
    }
    for (int turn = 0; turn < 3; ++turn) {
      const auto executor = co_await boost::asio::this_coro::executor;
      co_await boost::asio::post(executor, boost::asio::use_awaitable);
    }
    --running;
  };
  co_await ForEach(scope, 10, 3, one);
  done->set_value(static_cast<int>(running));
}

TEST_F(AsyncTest, ForEach_RunsAllWithinItsBoundAlsoWhenOneFails) {
  for (const size_t fails : {size_t{99}, size_t{4}}) {
    std::vector<size_t> begun;
    size_t most = 0;
    std::promise<int> done;
    loop_.Post([&] { scope_.Spawn("count", Count(scope_, &begun, &most, fails, &done)); });
    EXPECT_EQ(Get(done), 0);
    EXPECT_EQ(begun.size(), 10u);
    EXPECT_TRUE(std::is_sorted(begun.begin(), begun.end()));
    EXPECT_EQ(most, 3u);
  }
  EXPECT_EQ(error_, "one failed");
}

TEST(Cancel, Token_RunsItsFunctionOnceAndAtOnceWhenAlreadyCancelled) {
  CancelSource source;
  int calls = 0;
  source.token().OnCancel([&] { ++calls; });
  source.Cancel();
  source.Cancel();
  EXPECT_EQ(calls, 1);
  source.token().OnCancel([&] { ++calls; });
  EXPECT_EQ(calls, 2);
  CancelToken never;
  never.OnCancel([&] { ++calls; });
  EXPECT_FALSE(never.cancelled());
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace sandbroker

// A bounded place for work that blocks (files with fsync, process starts). Results come back on
// the loop. Run may be called on the loop thread only; the work itself runs on a pool thread.
#pragma once

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <type_traits>

#include "absl/status/status.h"
#include "lib/async/scheduler.h"
#include "lib/async/task.h"
#include "lib/base/status.h"

namespace sandbroker {

class BlockingPool {
 public:
  // At most `max_pending` jobs wait or run; more are refused with CAPACITY.
  BlockingPool(Scheduler& loop, size_t threads, size_t max_pending)
      : loop_(loop), max_pending_(max_pending), pool_(threads) {}
  ~BlockingPool() { pool_.join(); }

  // Work that was begun is finished even if nobody waits for it any more.
  template <class Fn>
  Task<absl::StatusOr<std::invoke_result_t<Fn>>> Run(Fn fn) {
    using T = std::invoke_result_t<Fn>;
    if (pending_.fetch_add(1) >= max_pending_) {
      pending_.fetch_sub(1);
      co_return MakeError(Reason::kCapacity, "blocking pool is full; raise blocking_jobs");
    }
    OneShot<T> result;
    boost::asio::post(pool_, [this, fn = std::move(fn), result]() mutable {
      T value = fn();
      pending_.fetch_sub(1);
      loop_.Post([result, value = std::make_shared<T>(std::move(value))] {
        result.Set(std::move(*value));
      });
    });
    co_return co_await result.Wait();
  }

  size_t pending() const { return pending_.load(); }

 private:
  Scheduler& loop_;
  const size_t max_pending_;
  std::atomic<size_t> pending_{0};
  boost::asio::thread_pool pool_;
};

}  // namespace sandbroker

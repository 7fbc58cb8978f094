// The same work for many items, a bounded number of them at once. Loop thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "lib/async/task.h"
#include "lib/async/task_scope.h"

namespace sandbroker {

namespace internal {

struct ForEachState {
  size_t next = 0;
  size_t running = 0;
  OneShot<bool> done;
};

// Counts a worker out, also when an exception ends it.
class ForEachWorker {
 public:
  explicit ForEachWorker(std::shared_ptr<ForEachState> state) : state_(std::move(state)) {}
  ~ForEachWorker() {
    if (--state_->running == 0) state_->done.Set(true);
  }
  ForEachWorker(const ForEachWorker&) = delete;
  ForEachWorker& operator=(const ForEachWorker&) = delete;

 private:
  const std::shared_ptr<ForEachState> state_;
};

inline Task<void> ForEachLoop(std::shared_ptr<ForEachState> state, size_t count,
                              std::function<Task<void>(size_t)> work) {
  const ForEachWorker worker(state);
  while (state->next < count) {
    Task<void> one = work(state->next++);
    co_await std::move(one);
  }
}

}  // namespace internal

// Runs `work(0)` to `work(count - 1)`, begun in this order, at most `limit` at once; completes when
// all of them have. `scope` outlives it.
inline Task<void> ForEach(TaskScope& scope, size_t count, size_t limit,
                          std::function<Task<void>(size_t)> work) {
  if (count == 0) co_return;
  const auto state = std::make_shared<internal::ForEachState>();
  const size_t workers = std::min(count, limit);
  state->running = workers;
  for (size_t i = 0; i < workers; ++i) {
    scope.Spawn("for each", internal::ForEachLoop(state, count, work));
  }
  co_await state->done.Wait();
}

}  // namespace sandbroker

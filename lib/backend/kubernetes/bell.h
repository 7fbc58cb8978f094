// Wakes the one coroutine that waits for something to have changed. Ringing is cheap and never runs
// the waiter on the spot; a ring that nobody waits for is kept for the next Wait. Loop thread only.
#pragma once

#include <memory>
#include <optional>

#include "lib/async/scheduler.h"
#include "lib/async/task.h"

namespace sandbroker::kubernetes {

class Bell {
 public:
  explicit Bell(Scheduler& scheduler) : scheduler_(scheduler) {}
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void Ring() {
    rung_ = true;
    if (!waiting_) return;
    scheduler_.Post([waiting = *waiting_] { waiting.Set(true); });
    waiting_.reset();
  }

  // Until it rings, or `deadline`. The bell outlives the call.
  Task<void> Wait(Time deadline) {
    if (!rung_ && scheduler_.Now() < deadline) {
      const OneShot<bool> woken;
      waiting_ = woken;
      std::unique_ptr<Timer> timer;
      if (deadline != kNever) {
        timer = scheduler_.After(deadline - scheduler_.Now(), [woken] { woken.Set(false); });
      }
      co_await woken.Wait();
      waiting_.reset();
    }
    rung_ = false;
  }

 private:
  Scheduler& scheduler_;
  bool rung_ = false;
  std::optional<OneShot<bool>> waiting_;
};

}  // namespace sandbroker::kubernetes

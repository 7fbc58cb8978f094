// Time and order for the domain: what runs next, and what runs later. Loop is the real one; tests
// hold one whose time they move (tests/support/manual_scheduler.h).
#pragma once

#include <functional>
#include <memory>

#include "lib/base/clock.h"

namespace sandbroker {

// Destroying it cancels the callback; afterwards it does not run.
class Timer {
 public:
  virtual ~Timer() = default;
};

class Scheduler : public Clock {
 public:
  // Any thread. `fn` runs on the loop thread, after what was posted before.
  virtual void Post(std::function<void()> fn) = 0;
  // Loop thread only. `fn` runs on it once, not before `delay` has passed.
  [[nodiscard]] virtual std::unique_ptr<Timer> After(Duration delay, std::function<void()> fn) = 0;
};

}  // namespace sandbroker

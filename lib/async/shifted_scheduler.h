// A scheduler whose wall clock is somebody else's: times that several machines compare are read on
// the one clock that all of them can ask. Everything but WallNow is the base's. Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "lib/async/scheduler.h"

namespace sandbroker {

class ShiftedScheduler final : public Scheduler {
 public:
  // `offset`: that clock less the base's, as known now. `base` outlives this.
  ShiftedScheduler(Scheduler& base, std::function<Duration()> offset)
      : base_(base), offset_(std::move(offset)) {}

  Time Now() const override { return base_.Now(); }
  WallTime WallNow() const override { return base_.WallNow() + offset_(); }
  void Post(std::function<void()> fn) override { base_.Post(std::move(fn)); }
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> fn) override {
    return base_.After(delay, std::move(fn));
  }

 private:
  Scheduler& base_;
  const std::function<Duration()> offset_;
};

}  // namespace sandbroker

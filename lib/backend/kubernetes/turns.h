// First come, first served, so many at once. Loop thread only.
#pragma once

#include <cstddef>
#include <deque>

#include "lib/async/scheduler.h"
#include "lib/async/task.h"

namespace sandbroker::kubernetes {

class Turns {
 public:
  Turns(Scheduler& scheduler, size_t at_once) : scheduler_(scheduler), free_(at_once) {}

  // Completes when it is one's turn; Done ends it.
  Task<void> Take() {
    if (free_ > 0) {
      --free_;
      co_return;
    }
    const OneShot<bool> turn;
    waiting_.push_back(turn);
    co_await turn.Wait();
  }

  void Done() {
    if (waiting_.empty()) {
      ++free_;
      return;
    }
    scheduler_.Post([next = waiting_.front()] { next.Set(true); });
    waiting_.pop_front();
  }

 private:
  Scheduler& scheduler_;
  size_t free_;
  std::deque<OneShot<bool>> waiting_;
};

// Ends a turn however its owner ends.
class Turn {
 public:
  explicit Turn(Turns& turns) : turns_(turns) {}
  ~Turn() { turns_.Done(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
};

}  // namespace sandbroker::kubernetes

// When one call must stop waiting: its bound has passed, or its caller cancelled. Whoever waits
// says how its wait is cut short. Loop thread only; lives as long as the call.
#pragma once

#include <functional>
#include <memory>

#include "lib/async/cancel.h"
#include "lib/async/scheduler.h"
#include "lib/async/task.h"

namespace sandbroker::kube {

class CallEnd {
 public:
  enum class Why { kGoesOn, kBound, kCancelled };

  // Takes the token's one subscription until it is destroyed.
  CallEnd(Scheduler& scheduler, Duration bound, CancelToken cancel);
  ~CallEnd();
  CallEnd(const CallEnd&) = delete;
  CallEnd& operator=(const CallEnd&) = delete;

  bool over() const { return why_ != Why::kGoesOn; }
  bool cancelled() const { return why_ == Why::kCancelled; }
  // For messages: what became of a call that is over.
  const char* text() const;
  Time until() const { return until_; }

  // Cuts the present wait short; at once if it is over already. nullptr: nothing waits.
  void Interrupt(std::function<void()> fn);
  // Ends after `delay`, or when the call does.
  Task<void> Sleep(Duration delay);
  // Another bound from now on, for a wait that starts again with every sign of life.
  void Extend(Duration bound);

 private:
  void End(Why why);

  Scheduler& scheduler_;
  const CancelToken cancel_;
  Time until_;
  Why why_ = Why::kGoesOn;
  std::function<void()> interrupt_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace sandbroker::kube

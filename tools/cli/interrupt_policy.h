// What the signals that reach the command line mean for the program it runs. Pure.
#pragma once

#include <csignal>

namespace sandbroker::cli {

enum class InterruptAction {
  // Passes SIGINT on to the program.
  kForward,
  // TERM, grace, KILL.
  kCancel,
  // Stops waiting for the program.
  kLeave,
};

// Ctrl-C: forward, cancel, leave. SIGTERM and SIGHUP ask for an end, so they begin with cancel.
class InterruptPolicy {
 public:
  InterruptAction Take(int signal) {
    const int at_least = signal == SIGINT ? 1 : 2;
    step_ = step_ + 1 < at_least ? at_least : step_ + 1;
    if (step_ == 1) return InterruptAction::kForward;
    return step_ == 2 ? InterruptAction::kCancel : InterruptAction::kLeave;
  }

 private:
  int step_ = 0;
};

}  // namespace sandbroker::cli

// Receives SIGINT, SIGTERM and SIGHUP on a thread of its own and hands them to whoever is at work:
// the acquire, the program, or the release. Make it before any other thread exists, so that all of
// them keep these signals blocked. What was ignored when we started (nohup) stays ignored.
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/fd.h"

namespace sandbroker::cli {

class Interrupts {
 public:
  using Handler = std::function<void(int signal)>;

  Interrupts() = default;
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  void Start();
  // The handler runs on the thread of this object, and at once here for signals that came while
  // there was none. Once this returns, the former one runs no more. Not from within a handler.
  void SetHandler(Handler handler);

 private:
  void Loop();

  UniqueFd signals_;
  UniqueFd stop_;
  std::mutex mutex_;
  Handler handler_;
  // Signals without a handler; more than a few presses of a key mean nothing new.
  std::vector<int> pending_;
  std::thread thread_;
};

}  // namespace sandbroker::cli

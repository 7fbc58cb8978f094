// SIGTERM, SIGINT and SIGHUP as events, and the watchdog of the shutdown. One thread of its own
// takes the signals; the main thread waits for the first. A second one means: quick. A third one,
// or a deadline that passes, ends the process with ExitCode::kForced.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace sandbroker::app {

class Signals {
 public:
  using Clock = std::chrono::steady_clock;

  // Blocks the signals in this thread and in those it starts: call before there are others.
  static void Block();

  // `on_quick` runs once, on the thread of this object, after the second signal.
  explicit Signals(std::function<void()> on_quick);
  ~Signals();

  // Main thread: until the first signal.
  void WaitForStop();
  // Until `delay` has passed or a second signal has come.
  void WaitUnlessQuick(std::chrono::nanoseconds delay);
  bool quick() const;
  // The process is ended if it is still there by then. A quick stop brings it nearer.
  void SetDeadline(Clock::time_point deadline);

 private:
  void Run();
  void OnSignal(int number);

  const std::function<void()> on_quick_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int seen_ = 0;
  bool done_ = false;
  std::optional<Clock::time_point> deadline_;
  std::thread thread_;
};

}  // namespace sandbroker::app

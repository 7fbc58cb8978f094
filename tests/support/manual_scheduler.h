// A Scheduler whose time moves only when a test says so. What is posted, and coroutines spawned on
// context(), run in order inside RunPosted and Advance, on the thread that calls them; nothing
// here waits. Post from any thread, everything else from the test's own.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "lib/async/scheduler.h"

namespace sandbroker {

class ManualScheduler final : public Scheduler {
 public:
  ManualScheduler();
  ~ManualScheduler() override;

  Time Now() const override { return now_; }
  WallTime WallNow() const override { return wall_now_; }
  void Post(std::function<void()> fn) override;
  [[nodiscard]] std::unique_ptr<Timer> After(Duration delay, std::function<void()> fn) override;

  // For TaskScope.
  boost::asio::io_context& context() { return context_; }

  // Runs what was posted, and what that posts, until nothing is left. Answers how many ran.
  size_t RunPosted();
  // Moves both clocks, timer by timer in the order they are due, running what each of them posts
  // before the next one.
  void Advance(Duration step);
  // Moves the wall clock alone, as an administrator would.
  void JumpWall(Duration step) { wall_now_ += step; }

  size_t pending_timers() const { return timers_->size(); }

 private:
  class ManualTimer;
  // Due time, then order of making.
  using Key = std::pair<Time, uint64_t>;
  using Timers = std::map<Key, std::function<void()>>;

  boost::asio::io_context context_{1};
  Time now_;
  WallTime wall_now_;
  uint64_t made_ = 0;
  // Shared, so that a timer may outlive its scheduler.
  std::shared_ptr<Timers> timers_ = std::make_shared<Timers>();
};

}  // namespace sandbroker

#include "tests/support/manual_scheduler.h"

#include <boost/asio/post.hpp>

namespace sandbroker {

class ManualScheduler::ManualTimer final : public Timer {
 public:
  ManualTimer(std::shared_ptr<Timers> timers, Key key) : timers_(std::move(timers)), key_(key) {}
  ~ManualTimer() override { timers_->erase(key_); }

 private:
  std::shared_ptr<Timers> timers_;
  Key key_;
};

// Both clocks start away from zero, so that code which takes zero for "unset" shows.
ManualScheduler::ManualScheduler()
    : now_(std::chrono::hours(1000)), wall_now_(std::chrono::hours(24 * 365 * 50)) {}

ManualScheduler::~ManualScheduler() = default;

void ManualScheduler::Post(std::function<void()> fn) { boost::asio::post(context_, std::move(fn)); }

std::unique_ptr<Timer> ManualScheduler::After(Duration delay, std::function<void()> fn) {
  const Key key{SaturatingAdd(now_, delay), ++made_};
  timers_->emplace(key, std::move(fn));
  return std::make_unique<ManualTimer>(timers_, key);
}

size_t ManualScheduler::RunPosted() {
  context_.restart();
  return context_.poll();
}

void ManualScheduler::Advance(Duration step) {
  const Time until = now_ + step;
  RunPosted();
  while (!timers_->empty() && timers_->begin()->first.first <= until) {
    const auto first = timers_->begin();
    const Time due = first->first.first;
    if (due > now_) {
      wall_now_ += due - now_;
      now_ = due;
    }
    const std::function<void()> fn = std::move(first->second);
    timers_->erase(first);
    fn();
    RunPosted();
  }
  wall_now_ += until - now_;
  now_ = until;
}

}  // namespace sandbroker

#include "lib/async/loop.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace sandbroker {
namespace {

class LoopTimer final : public Timer {
 public:
  LoopTimer(boost::asio::io_context& context, Duration delay, std::function<void()> fn)
      : timer_(context, delay), fn_(std::make_shared<std::function<void()>>(std::move(fn))) {
    // An expiry that is already queued when the timer dies finds its function empty.
    timer_.async_wait([fn = fn_](const boost::system::error_code& error) {
      if (error || !*fn) return;
      const auto run = std::exchange(*fn, nullptr);
      run();
    });
  }
  ~LoopTimer() override { *fn_ = nullptr; }

 private:
  boost::asio::steady_timer timer_;
  std::shared_ptr<std::function<void()>> fn_;
};

}  // namespace

Loop::Loop() : guard_(context_.get_executor()) {}

Loop::~Loop() { Stop(); }

void Loop::Start() {
  thread_ = std::thread([this] {
    thread_id_ = std::this_thread::get_id();
    context_.run();
  });
}

void Loop::Stop() noexcept {
  guard_.reset();
  if (thread_.joinable()) thread_.join();
}

Time Loop::Now() const { return std::chrono::steady_clock::now(); }

WallTime Loop::WallNow() const { return std::chrono::system_clock::now(); }

void Loop::Post(std::function<void()> fn) { boost::asio::post(context_, std::move(fn)); }

std::unique_ptr<Timer> Loop::After(Duration delay, std::function<void()> fn) {
  return std::make_unique<LoopTimer>(context_, delay, std::move(fn));
}

}  // namespace sandbroker

// The loop: one io_context and the one thread that runs all domain code. gRPC's threads and the
// blocking pool only Post to it (docs/adr/0002).
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "lib/async/scheduler.h"

namespace sandbroker {

class Loop final : public Scheduler {
 public:
  Loop();
  ~Loop() override;

  // Starts the thread. Once.
  void Start();
  // Lets the thread end when nothing is left to do, and joins it. Idempotent. Not from the loop.
  void Stop() noexcept;

  boost::asio::io_context& context() { return context_; }
  // True on the loop thread.
  bool InLoop() const { return std::this_thread::get_id() == thread_id_; }

  Time Now() const override;
  WallTime WallNow() const override;
  void Post(std::function<void()> fn) override;
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> fn) override;

 private:
  boost::asio::io_context context_{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> guard_;
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_;
};

}  // namespace sandbroker

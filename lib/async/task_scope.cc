#include "lib/async/task_scope.h"

#include <boost/asio/co_spawn.hpp>
#include <exception>

#include "lib/base/check.h"

namespace sandbroker {

TaskScope::TaskScope(boost::asio::io_context& context,
                     std::function<void(std::string_view, std::string_view)> on_exception)
    : context_(context), on_exception_(std::move(on_exception)) {}

TaskScope::~TaskScope() { SANDBROKER_CHECK(running_ == 0); }

void TaskScope::Spawn(std::string_view name, Task<void> task) {
  ++running_;
  boost::asio::co_spawn(context_, std::move(task), [this, name](const std::exception_ptr& error) {
    if (error) {
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& e) {
        on_exception_(name, e.what());
      } catch (...) {
        on_exception_(name, "not a std::exception");
      }
    }
    OnTaskDone();
  });
}

void TaskScope::Join(std::function<void()> done) {
  if (running_ == 0) {
    done();
  } else {
    joined_ = std::move(done);
  }
}

void TaskScope::OnTaskDone() {
  --running_;
  if (running_ > 0 || !joined_) return;
  const auto joined = std::exchange(joined_, nullptr);
  joined();
}

}  // namespace sandbroker

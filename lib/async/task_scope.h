// Owner of spawned coroutines: nothing runs detached. Join waits for all of them; the destructor
// insists that it was called. Loop thread only, except where said.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string_view>

#include "lib/async/task.h"

namespace sandbroker {

class TaskScope {
 public:
  // `context` outlives the scope. An exception that escapes a task is given to `on_exception`
  // with the task's name; the scope goes on.
  TaskScope(boost::asio::io_context& context,
            std::function<void(std::string_view name, std::string_view what)> on_exception);
  ~TaskScope();

  // `name` is a literal. After Join was called, tasks may still be spawned by running tasks.
  void Spawn(std::string_view name, Task<void> task);
  // Calls `done` when no task is left (perhaps at once). One Join at a time.
  void Join(std::function<void()> done);
  size_t running() const { return running_; }

 private:
  void OnTaskDone();

  boost::asio::io_context& context_;
  std::function<void(std::string_view, std::string_view)> on_exception_;
  size_t running_ = 0;
  std::function<void()> joined_;
};

}  // namespace sandbroker

// Moves our stdin to the program's on a thread of its own, as fast as the program reads. It never
// holds anything up: when the program has ended, Stop returns at once, whatever stdin is.
#pragma once

#include <thread>

#include "lib/base/fd.h"
#include "sandbroker/client/execution.h"

namespace sandbroker::cli {

class StdinPump {
 public:
  // `execution` must outlive this.
  explicit StdinPump(client::Execution& execution) : execution_(execution) {}
  ~StdinPump() { Stop(); }
  StdinPump(const StdinPump&) = delete;
  StdinPump& operator=(const StdinPump&) = delete;

  void Start();
  // Call when the execution is over: only then does a write that waits for the program return.
  void Stop();

 private:
  void Loop();

  client::Execution& execution_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace sandbroker::cli

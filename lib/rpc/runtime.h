// What every adapter needs to bring a call to the loop. The composition root owns all of it; it
// outlives the gRPC server.
#pragma once

#include "lib/async/scheduler.h"
#include "lib/async/task_scope.h"
#include "lib/obs/metrics.h"

namespace sandbroker::rpc {

struct Runtime {
  Scheduler& loop;
  TaskScope& scope;
  obs::Metrics& metrics;
};

}  // namespace sandbroker::rpc

// Asks a new incarnation for the facts of the privilege probe, by an ordinary execution on its
// link. Loop thread only.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "lib/async/scheduler.h"
#include "lib/backend/kubernetes/probe.h"
#include "lib/broker/agent_link.h"

namespace sandbroker::kubernetes {

// `done` is called once, within `bound`: the facts, PRIVILEGED_SANDBOX (also when what runs there
// can't answer), or AGENT_UNREACHABLE when the link went first.
void RunProbe(Scheduler& scheduler, std::shared_ptr<broker::AgentLink> link, Duration bound,
              std::function<void(absl::StatusOr<ProbeFacts>)> done);

}  // namespace sandbroker::kubernetes

// A backend with what stands around it (receipts, keys, its own probes), as the app handles it
// whatever its kind: prepared before there is a second thread, recovered before anybody is served,
// started, shut down. Owned by Parts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/async/blocking_pool.h"
#include "lib/async/loop.h"
#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/backend/local/protections.h"
#include "lib/broker/agent_link.h"
#include "lib/broker/backend.h"
#include "lib/broker/receipt_store.h"
#include "lib/config/config.h"
#include "lib/obs/metrics.h"
#include "server/app/state_dir.h"

namespace sandbroker::app {

class Engine {
 public:
  virtual ~Engine() = default;

  // Whether this host and this configuration can serve; may block. Main thread, before the loop
  // runs.
  virtual absl::Status Prepare() = 0;
  // Finds what earlier brokers left, and tells the backend's observer. Loop thread from here on.
  virtual Task<absl::Status> Recover() = 0;
  // The key of the handles, 32 bytes; the same for every broker that shares these sandboxes. After
  // Recover.
  virtual std::string handle_key() const = 0;
  virtual void Start() = 0;
  // Leaves all sandboxes to the next broker at Shutdown, whatever the settings say.
  virtual void KeepSandboxes() = 0;
  virtual bool keeps_sandboxes() const = 0;
  // Completes, bounded, when all that is to be ended has ended.
  virtual Task<void> Shutdown() = 0;

  // Time as everybody who shares these sandboxes reads it.
  virtual Scheduler& scheduler() = 0;
  virtual broker::Backend& backend() = 0;
  virtual broker::ReceiptStore& receipts() = 0;

  // For the log at start: what keeps sandboxes apart, in a few words, and in detail. Main thread.
  virtual std::string isolation() const = 0;
  virtual std::vector<local::Protection> protections() const = 0;
};

// What an engine stands on. All of it outlives the engine.
struct EngineParts {
  const config::Config& config;
  const StateDir& state;
  const std::string& replica_id;
  obs::Metrics& metrics;
  Loop& loop;
  BlockingPool& blocking;
  TaskScope& scope;
  broker::AgentDialer& dialer;
};

// The one that `config.server.backend` names.
std::unique_ptr<Engine> MakeEngine(const EngineParts& parts);

}  // namespace sandbroker::app

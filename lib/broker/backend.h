// Where sandboxes come from. The broker asks; a backend acts on processes or on the API server and
// reports what it sees. Loop thread only, callbacks included.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/async/cancel.h"
#include "lib/async/task.h"
#include "lib/broker/agent_link.h"
#include "lib/broker/core/claim.h"
#include "lib/broker/core/types.h"

namespace sandbroker::broker {

// A sandbox handed to the broker, its agent answering.
struct Binding {
  std::string uid;  // never reused
  std::shared_ptr<AgentLink> link;
  Source source = Source::kWarm;
  Duration queued{0};
  Duration started{0};
};

// A claimed sandbox that an earlier broker left, its agent answering as the same incarnation.
struct Adopted {
  std::string uid;
  std::string pool;
  Claim claim;
  std::shared_ptr<AgentLink> link;
};

class BackendObserver {
 public:
  virtual ~BackendObserver() = default;
  // Before anything is served; from now on it is bound like one that was acquired.
  virtual void OnAdopted(Adopted adopted) = 0;
  // A bound sandbox's agent is provably gone, with everything below it. Last word on the uid.
  virtual void OnSandboxGone(const std::string& uid, const std::string& cause) = 0;
  // The link was lost; the backend is trying to get another one.
  virtual void OnLinkLost(const std::string& uid, const absl::Status& why) = 0;
  // Another link to the same incarnation.
  virtual void OnLinkRestored(const std::string& uid, std::shared_ptr<AgentLink> link) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::vector<std::string> capabilities() const = 0;
  virtual std::vector<std::string> pools() const = 0;
  virtual void SetObserver(BackendObserver* observer) = 0;

  // A sandbox of `spec.pool` within `spec.wait_bound`, as `spec.fallback` allows. Cancelling gives
  // up the place in the queue; a sandbox that arrives at the same moment stays in the pool.
  // Errors: POOL_NOT_FOUND, POOL_EXHAUSTED, NOT_READY, SERVER_DRAINING, CANCELLED.
  virtual Task<absl::StatusOr<Binding>> Acquire(const AcquireSpec& spec, CancelToken cancel) = 0;
  // Keeps `claim` with a bound sandbox instead of what was kept before; OK once it outlives this
  // process. Several calls for one sandbox take effect in their order. SANDBOX_GONE if it is gone.
  virtual Task<absl::Status> Remember(std::string uid, Claim claim) = 0;
  // Destroys it and everything in it. Idempotent; OK also when it is gone already.
  virtual Task<absl::Status> Release(const std::string& uid) = 0;
  virtual std::vector<PoolCapacity> Capacity() const = 0;
  // No more acquires; ends waiting ones with SERVER_DRAINING.
  virtual void Drain() = 0;
};

}  // namespace sandbroker::broker

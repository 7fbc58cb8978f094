// Who may claim from one pool now, and who waits. The controller starts a cold sandbox for whatever
// finds no ready member, so a caller who wants a warm one is let through only while there are more
// ready members than claims that are still to take one, of any replica. Decisions are
// AcquireQueue's. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "lib/async/cancel.h"
#include "lib/async/scheduler.h"
#include "lib/async/task.h"
#include "lib/backend/kubernetes/cluster_cache.h"
#include "lib/backend/kubernetes/settings.h"
#include "lib/broker/core/acquire_queue.h"

namespace sandbroker::kubernetes {

class PoolGate {
 public:
  // Both outlive it.
  PoolGate(Scheduler& scheduler, const ClusterCache& cache, PoolSettings settings);

  const PoolSettings& settings() const { return settings_; }
  // OK: claim now, and call Seen once the cache shows the claim, or it is given up before that.
  // POOL_EXHAUSTED, CLAIM_REJECTED (there is no such pool), CANCELLED, SERVER_DRAINING.
  Task<absl::Status> Enter(broker::Fallback fallback, Time deadline, CancelToken cancel);
  void Seen();
  // Something in the cache has changed.
  void Pump();
  void Drain();

  broker::PoolCapacity Capacity() const;

 private:
  using Ticket = broker::AcquireQueue::Ticket;

  broker::PoolCounts Counts() const;
  bool Full(const broker::PoolCounts& counts) const {
    return counts.starting + counts.claimed >= settings_.limit;
  }
  absl::Status Dry() const;
  std::optional<Ticket> NextAdmitted();
  void Grant(Ticket ticket);
  void End(Ticket ticket, absl::Status status);
  void ArmExpiry();

  Scheduler& scheduler_;
  const ClusterCache& cache_;
  const PoolSettings settings_;
  broker::AcquireQueue queue_;
  std::map<Ticket, OneShot<absl::Status>> waiters_;
  uint32_t entered_ = 0;  // let through, their claims not in the cache yet
  bool draining_ = false;
  std::unique_ptr<Timer> expiry_timer_;  // ends callers whose wait is over
};

}  // namespace sandbroker::kubernetes

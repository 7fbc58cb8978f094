// What the Kubernetes backend is told at start. Plain data; the composition root fills it from the
// configuration.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/broker/core/lease.h"

namespace sandbroker::kubernetes {

struct PoolSettings {
  std::string name;       // ours; also a label's value
  std::string warm_pool;  // of the SandboxWarmPool
  // Where the agent listens, as its template says.
  uint16_t agent_port = 7444;
  // The container that runs the agent; empty = the pod's first.
  std::string agent_container;
  // Most claims of the broker at once, whatever their state; other replicas' count as well.
  uint32_t limit = 1000;
  // Most callers queued in Acquire; more are refused with POOL_EXHAUSTED.
  uint32_t max_waiting = 1024;
};

struct KubernetesSettings {
  std::string space;                          // the namespace of everything
  std::map<std::string, PoolSettings> pools;  // by our name
  broker::LeaseSettings lease;
  // A claim that nobody was told of ends this long after its caller's bound.
  Duration first_backstop = std::chrono::minutes(2);
  // One request to the API server, and the pause before one is tried again.
  Duration call_bound = std::chrono::seconds(10);
  Duration retry_pause = std::chrono::milliseconds(500);
  Duration dial_bound = std::chrono::seconds(10);
  Duration probe_bound = std::chrono::seconds(5);
  // For how long a lost link is dialled again at short intervals; at long ones after that, until
  // the cluster says that the sandbox is gone.
  Duration relink_bound = std::chrono::seconds(30);
  Duration relink_slow = std::chrono::seconds(10);
  // For deleting what an acquire that failed has left behind: its caller's time is over.
  Duration cleanup_bound = std::chrono::seconds(60);
  Duration release_bound = std::chrono::seconds(30);
  // Release answers when the pod is gone, not when its deletion is certain.
  bool wait_for_pod = false;
  // For a sandbox of another replica that a caller asks for.
  Duration seek_bound = std::chrono::seconds(8);
  // Start waits this long for what earlier brokers left.
  Duration adopt_bound = std::chrono::seconds(10);
};

}  // namespace sandbroker::kubernetes

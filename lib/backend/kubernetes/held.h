// One claim that this process has something to do with: being acquired, served, adopted, or to be
// got rid of. Plain state; KubernetesBackend acts on it. Shared, since coroutines outlive the maps'
// entries. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/async/cancel.h"
#include "lib/backend/kubernetes/bell.h"
#include "lib/backend/kubernetes/claim_object.h"
#include "lib/backend/kubernetes/pool_gate.h"
#include "lib/backend/kubernetes/readiness.h"
#include "lib/backend/kubernetes/turns.h"
#include "lib/broker/agent_link.h"
#include "lib/broker/core/claim.h"

namespace sandbroker::kubernetes {

struct Held {
  enum class State {
    kAcquiring,  // POSTed or about to be; nobody was told of it
    kAdopting,   // its claim stands, its agent is not met yet
    kBound,      // the broker has it
    kUnwanted,   // to be deleted; nobody was told of it
    kReleasing,
    kOver,  // out of the maps
  };

  Held(Scheduler& scheduler, PoolGate* its_gate, std::string its_name)
      : gate(its_gate), name(std::move(its_name)), bell(scheduler), writes(scheduler, 1) {}

  PoolGate* const gate;
  const std::string name;
  std::string uid;  // empty until the API server has said it
  State state = State::kAcquiring;
  Bell bell;  // something about it has changed

  // The claim as it stands on the cluster, as far as is known.
  ClaimView view;         // until the cache has it
  bool seen = false;      // the cache has had it
  uint64_t version = 0;   // of what is known of its promise; older ones are passed over
  std::string until;      // annotation, verbatim
  std::string holder;     // label
  broker::Claim promise;  // as the broker was told or had it kept
  bool writing = false;   // what the cache shows meanwhile may be our own
  Turns writes;           // they take effect in their order

  // Of an acquire.
  bool counted = false;                // its gate waits for the cache to show it
  bool left = false;                   // its caller went away, or this process is going
  std::optional<absl::Status> posted;  // what came of the POST
  absl::Status post_error;             // of its last try
  bool unsure = false;                 // it may have been written all the same
  CancelSource step;                   // the request or dial under way

  // Where it is served.
  std::optional<Place> place;
  std::string sandbox;  // its name, which is its pod's
  std::optional<PodView> last_pod;
  std::shared_ptr<broker::AgentLink> link;
  std::string boot_id;
  std::string fingerprint;  // of its certificate
  uint64_t links = 0;       // made so far: tells a late loss from the present link's
  bool relinking = false;
  std::optional<absl::Status> probe;  // of this place
  std::vector<OneShot<bool>> probe_waiters;
  absl::Status trouble;  // why it is not adopted yet
  // Wait until it is bound, or known not to be soon.
  std::vector<OneShot<bool>> settled;
};

}  // namespace sandbroker::kubernetes

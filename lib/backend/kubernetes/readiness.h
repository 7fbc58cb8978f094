// May this pod be served, and what came of this claim: decided from what the informers have said so
// far of a claim, the sandbox it owns and that sandbox's pod. The rules hold for every version of
// the controller: a claim's Ready and its addresses can be those of a dying pod, so only the pod
// proves anything, and a sandbox that our claim owns counts before the claim says so. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "lib/backend/kubernetes/views.h"

namespace sandbroker::kubernetes {

// Where a sandbox serves, and which life of it that is.
struct Place {
  std::string address;
  std::string sandbox_uid;
  std::string pod_uid;
  std::string node;
  int64_t restarts = 0;  // of the agent's container
  bool warm = false;     // the controller took it from the pool
  friend bool operator==(const Place&, const Place&) = default;
};

struct Verdict {
  enum class Kind {
    kReady,
    kWait,    // inside the caller's bound; `why` holds what is known
    kFailed,  // it can never become ready: `error`, with the controller's words
    kGone,    // the claim is deleted or being deleted
  };
  Kind kind = Kind::kWait;
  Place place = {};
  absl::Status error = {};
  std::string why = {};
};

// What is known; nullptr = not seen, or seen to be gone.
struct Seen {
  const ClaimView* claim = nullptr;
  const SandboxObject* sandbox = nullptr;  // owned by this very claim
  const PodView* pod = nullptr;            // of that sandbox's name
};

Verdict JudgeReadiness(const Seen& seen, const std::string& agent_container);

// NOT_READY at the end of the caller's bound, with the best words there are.
absl::Status NotReadyInTime(const Verdict& verdict);

}  // namespace sandbroker::kubernetes

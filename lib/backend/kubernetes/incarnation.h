// Is the sandbox that a caller was given still in the same life? Conditions can't tell (they stay
// Ready through a pod's whole grace and a quick resume); the pod's uid, its deletionTimestamp and
// the restarts of the agent's container can. Pure.
#pragma once

#include <string>

#include "lib/backend/kubernetes/readiness.h"

namespace sandbroker::kubernetes {

struct Life {
  enum class Kind {
    kSame,
    kEnding,  // it still runs, and will not for long: nothing new is sent there
    kOver,    // provably: everything that ran in it has ended
  };
  Kind kind = Kind::kSame;
  std::string cause = {};
};

// `served`: what was handed out. `last_pod`: its pod as it was last seen, which knows why it ended
// when the cluster shows nothing of it any more; may be nullptr.
Life JudgeLife(const Place& served, const Seen& seen, const PodView* last_pod,
               const std::string& agent_container);

}  // namespace sandbroker::kubernetes

// What a pod says about why it does not serve, or why it serves no more. Its words are the only
// ones that name a node, an image or an exit code: claims and sandboxes carry none of these. Pure.
#pragma once

#include <string>
#include <string_view>

#include "lib/backend/kubernetes/views.h"

namespace sandbroker::kubernetes {

struct PodTrouble {
  enum class Kind {
    kNone,   // nothing is known to be wrong
    kWait,   // it may still come right
    kImage,  // its image can't be had
  };
  Kind kind = Kind::kNone;
  std::string words;  // for people
};

// Of a pod that is to serve.
PodTrouble Diagnose(const PodView& pod);

// How a container ended, e.g. "out of memory" or "exit code 3"; empty when it has not.
std::string EndOf(const Termination& ended);

// Somebody deleted the pod, and nothing says why.
inline constexpr std::string_view kPodDeleted = "pod deleted";

// Why a pod that served is over or being ended: "evicted: ...", "out of memory", "exit code 3", ...
std::string CauseOfEnd(const PodView& pod, const std::string& agent_container);

}  // namespace sandbroker::kubernetes

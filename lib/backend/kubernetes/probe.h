// The privilege probe: a new incarnation says of itself what its programs may do, before any work
// is sent to it. The agent's own file prints /proc/self/status from inside an ordinary execution,
// so what is measured is what callers get, in any image. Pure; probe_run.h asks.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sandbroker::kubernetes {

// As the kernel writes them.
struct ProbeFacts {
  std::string uids;     // real, effective, saved, file system
  std::string seccomp;  // 0 = no filter, 2 = filtered
  std::string ambient;  // the ambient set
};

// PRIVILEGED_SANDBOX naming every line that is wrong or missing, unless the sets CapInh, CapPrm,
// CapEff and CapBnd are empty and NoNewPrivs is 1.
absl::StatusOr<ProbeFacts> JudgeProbe(std::string_view status_file);

}  // namespace sandbroker::kubernetes

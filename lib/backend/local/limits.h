// Whether what the templates ask for can be kept on this host: a limit that can't be enforced is
// refused, or only warned of where its template calls it advisory. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/backend/local/isolation.h"
#include "lib/backend/local/settings.h"

namespace sandbroker::local {

struct LimitFindings {
  std::vector<std::string> refused;
  std::vector<std::string> warned;
};
LimitFindings CheckLimits(const LocalSettings& settings, const HostFacts& host);

// Whether any template sets one.
bool MemoryLimitWanted(const LocalSettings& settings);

// RLIMIT_NPROC counts per sandbox: because its uid is its own, or because the kernel (5.14 and
// newer) counts per user namespace.
bool ProcessesCountPerSandbox(const HostFacts& host);

}  // namespace sandbroker::local

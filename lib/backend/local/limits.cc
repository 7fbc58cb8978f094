#include "lib/backend/local/limits.h"

#include <algorithm>
#include <cstdio>

#include "lib/base/strings.h"

namespace sandbroker::local {

bool MemoryLimitWanted(const LocalSettings& settings) {
  return std::any_of(settings.templates.begin(), settings.templates.end(),
                     [](const auto& entry) { return entry.second.memory_bytes != 0; });
}

bool ProcessesCountPerSandbox(const HostFacts& host) {
  int major = 0;
  int minor = 0;
  if (host.is_root) return true;
  if (std::sscanf(host.kernel.c_str(), "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 14);
}

LimitFindings CheckLimits(const LocalSettings& settings, const HostFacts& host) {
  LimitFindings findings;
  for (const auto& [name, tmpl] : settings.templates) {
    std::vector<std::string>& list = tmpl.advisory_limits ? findings.warned : findings.refused;
    if (tmpl.memory_bytes != 0 && !settings.cgroups.usable()) {
      list.push_back(StrCat("templates.", name, ".memory: ", tmpl.memory_bytes,
                            " bytes can't be enforced here: ", settings.cgroups.why,
                            ". To enforce it: ", settings.cgroups.remedy));
    }
    if (tmpl.pids != 0 && !ProcessesCountPerSandbox(host)) {
      list.push_back(StrCat("templates.", name, ".pids: ", tmpl.pids,
                            " can't be enforced here: before Linux 5.14 (this is ", host.kernel,
                            ") processes are counted per user, over all sandboxes. To enforce "
                            "it: run sandbrokerd as root, or use a newer kernel"));
    }
  }
  return findings;
}

}  // namespace sandbroker::local

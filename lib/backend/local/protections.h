// Which protections are active on this host and what would enable the rest: for `sandbrokerd
// --doctor` and for the log at start. Pure; host_facts.h and cgroups.h have looked.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/backend/local/isolation.h"
#include "lib/backend/local/settings.h"

namespace sandbroker::local {

struct Protection {
  enum class State {
    kActive,
    kPartly,  // something is left open, or it could be had and is not asked for
    kMissing,
  };
  std::string name;  // a word in lower case, for machines
  State state = State::kActive;
  std::string detail;  // what it keeps, or what is wrong
  std::string remedy;  // empty when active
};

// `probe` is ProbeIsolation's answer. The names and their order are fixed: docs/operations.md.
std::vector<Protection> DescribeProtections(const LocalSettings& settings, const HostFacts& host,
                                            const absl::Status& probe);

// "active", "partly", "missing".
std::string StateName(Protection::State state);

}  // namespace sandbroker::local

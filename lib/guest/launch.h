// From a Start to a running program: what a start may say, and the typed reason when it can't run.
// Agent thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/fd.h"
#include "lib/guest/environment.h"
#include "lib/process/spawn.h"
#include "lib/process/supervise.h"
#include "sandbroker/agent/v1/link.pb.h"

namespace sandbroker::guest {

// FIELD_INVALID for what no execution may be asked for.
absl::Status ValidateStart(const agent::v1::Start& start);

// What each program is limited to: the descriptors that the agent had, which raises its own, and
// processes (0 = as inherited). Once.
std::vector<ResourceLimit> TakeProgramLimits(uint64_t max_processes);

struct LaunchSettings {
  std::string workspace;
  int cgroup_procs_fd = -1;
  // TakeProgramLimits.
  std::vector<ResourceLimit> rlimits;
  SupervisorPool supervisors;
};

// Our ends of the program's standard streams; `input` is invalid when it has /dev/null.
struct Launched {
  Supervised tree;
  UniqueFd input;
  UniqueFd output;
  UniqueFd error;
};

struct LaunchFailure {
  int error_number = 0;
  std::string step;
  std::string message;
};

std::optional<LaunchFailure> Launch(const agent::v1::Start& start, const Environment& environment,
                                    LaunchSettings* settings, Launched* launched);

}  // namespace sandbroker::guest

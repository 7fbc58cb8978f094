// The cgroups that hold what sandboxes run: one folder a sandbox, in a folder of this broker. The
// agent stays outside, so that a limit ends programs and never the agent; programs enter by a
// descriptor of cgroup.procs that the agent was given. Everything blocks for microseconds; any
// thread, no state.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/backend/local/cgroup_paths.h"
#include "lib/backend/local/settings.h"
#include "lib/base/fd.h"

namespace sandbroker::local {

// What is there, without changing anything. `settings.state_dir` names the broker's folder.
Cgroups LookAtCgroups(const LocalSettings& settings);

// Makes the broker's folder if a template sets `memory`, and removes in it what sandboxes of a dead
// broker left. If that can't be done, the reason is in the answer.
Cgroups PrepareCgroups(const LocalSettings& settings);

struct SandboxCgroup {
  UniqueFd procs;       // cgroup.procs, open for writing
  UniqueFd oom_events;  // what OomEventsFile names, open for reading
};
absl::StatusOr<SandboxCgroup> MakeSandboxCgroup(const Cgroups& cgroups, const std::string& uid,
                                                const TemplateSettings& tmpl);
// Once nothing of the sandbox runs any more; nothing happens when it had none.
void RemoveSandboxCgroup(const Cgroups& cgroups, const std::string& uid);
// The broker's folder, when no sandbox is left in it.
void RemoveCgroups(const Cgroups& cgroups);

}  // namespace sandbroker::local

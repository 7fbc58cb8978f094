// Starts the process of one sandbox: socket, secret, /etc contents, and bubblewrap under an
// unprivileged host uid. Everything here blocks for some milliseconds and is called on the
// blocking pool; it keeps no state.
#pragma once

#include <sys/types.h>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/backend/local/settings.h"
#include "lib/base/fd.h"

namespace sandbroker::local {

struct Launched {
  pid_t monitor_pid = -1;  // bubblewrap, our child
  UniqueFd monitor_pidfd;
  UniqueFd info;     // bubblewrap writes {"child-pid": N} here
  UniqueFd stderr_;  // what bubblewrap and the agent complain about
  std::string secret;
  std::string socket_path;
  // Keeps socket_path reachable, which is short whatever the state directory's name.
  UniqueFd directory;
  // Only of one that an earlier broker launched: its agent (there is no monitor_pid then), and the
  // incarnation that must answer.
  pid_t agent_pid = 0;
  UniqueFd agent_pidfd;
  std::string boot_id;
};

struct LaunchOrder {
  std::string uid;     // of the sandbox; names its folder
  uid_t host_uid = 0;  // 0 = run as we are
  std::string secret;  // wire::kSecretSize bytes
  // The state file, in place before there is a process: a broker that dies at any later moment
  // leaves nothing that the next one can't find.
  std::string record;
};

absl::StatusOr<Launched> Launch(const LocalSettings& settings, const TemplateSettings& tmpl,
                                const LaunchOrder& order);

// Opens `directory`, the sandbox's folder, and says where its socket is.
absl::Status Locate(const std::string& directory, Launched* launched);

// Host pid of the sandbox's first process from the info pipe; 0 when it was never written.
pid_t ReadChildPid(int info_fd);

// Whether this host can isolate at all: runs the agent's --version inside. OK, or
// ISOLATION_UNAVAILABLE with cause and remedy.
absl::Status ProbeIsolation(const LocalSettings& settings);

}  // namespace sandbroker::local

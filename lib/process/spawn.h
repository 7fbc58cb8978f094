// Starting one program with everything about it decided beforehand: the child between clone and
// exec makes raw system calls only. The agent starts executions with it, the local backend starts
// bubblewrap with it. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/fd.h"

namespace sandbroker {

struct ResourceLimit {
  int resource = 0;  // RLIMIT_x
  uint64_t soft = 0;
  uint64_t hard = soft;
};

struct SpawnSpec {
  std::vector<std::string> argv;  // not empty
  // Resolved path for exec; argv[0] is passed as it is.
  std::string path;
  std::vector<std::string> env;  // "NAME=value"
  std::string cwd;               // empty = unchanged
  // {source fd, number in the child}; everything else is closed. Sources may overlap targets.
  std::vector<std::pair<int, int>> fds;
  // New session (hence process group) for the child.
  bool new_session = true;
  // Drop to this uid and gid with no supplementary groups (needs root).
  std::optional<std::pair<uid_t, gid_t>> user;
  // An open cgroup.procs the child writes itself into before exec; -1 = none.
  int cgroup_procs_fd = -1;
  bool no_new_privileges = true;
  std::vector<ResourceLimit> rlimits;
};

struct SpawnError {
  int error_number;
  const char* step;  // "exec", "cwd", "fork", "user", "cgroup", "fds", "rlimit"
};

struct Spawned {
  pid_t pid = -1;
  UniqueFd pidfd;
};

// Returns once the program was exec'ed or has failed to be; a child that failed is reaped. The
// child has default signal dispositions and an empty signal mask.
std::optional<SpawnError> Spawn(const SpawnSpec& spec, Spawned* out);

// Searches `path_variable` (colon-separated) for `program` unless it has a '/'. Answers the path
// to exec, or an errno: ENOENT, or EACCES when a match was not executable.
int ResolveProgram(const std::string& program, const std::string& path_variable,
                   const std::string& cwd, std::string* resolved);

}  // namespace sandbroker

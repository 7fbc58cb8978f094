// Programs that a test starts by hand, and what became of them.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>
#include <vector>

#include "lib/process/spawn.h"

namespace sandbroker::test {

// `sh -c script`, with the usual PATH and nothing else.
inline SpawnSpec Shell(const std::string& script) {
  SpawnSpec spec;
  spec.argv = {"sh", "-c", script};
  spec.path = "/bin/sh";
  spec.env = {"PATH=/usr/bin:/bin"};
  return spec;
}

// Children of all kinds, zombies too, of a process whose main thread starts them.
inline std::vector<pid_t> ChildrenOf(pid_t parent) {
  const std::string pid = std::to_string(parent);
  std::ifstream in("/proc/" + pid + "/task/" + pid + "/children");
  std::vector<pid_t> pids;
  for (pid_t child; in >> child;) pids.push_back(child);
  return pids;
}

}  // namespace sandbroker::test

// What the local backend is told at start. Plain data; the composition root fills it from the
// configuration.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/backend/local/cgroup_paths.h"
#include "lib/base/clock.h"

namespace sandbroker::local {

struct TemplateSettings {
  std::string name;
  // Folder that becomes the sandbox's read-only root; empty = the host's /usr and a minimal /etc.
  std::string rootfs;
  // Sizes of the tmpfs behind /workspace, /tmp and /dev/shm. Memory of the host.
  uint64_t workspace_bytes = 256ull << 20;
  uint64_t tmp_bytes = 64ull << 20;
  // Memory and processes of all programs of a sandbox together; 0 = not set. Without `pids` the
  // bound is kDefaultPids, which costs no cgroup.
  uint64_t memory_bytes = 0;
  uint32_t pids = 0;
  // A limit that this host can't enforce is warned of instead of refused.
  bool advisory_limits = false;
  // Most open descriptors of one program.
  uint32_t open_files = 65536;
  // For every execution; an acquire's env and a Start's env win over it.
  std::vector<std::pair<std::string, std::string>> env;
};

// Against fork bombs, where a template says nothing.
inline constexpr uint32_t kDefaultPids = 4096;

struct PoolSettings {
  std::string name;
  std::string template_name = "default";
  // Started ahead and waiting.
  uint32_t warm = 2;
  // Most sandboxes at once, whatever their state.
  uint32_t limit = 64;
  // Most callers queued in Acquire; more are refused with POOL_EXHAUSTED.
  uint32_t max_waiting = 1024;
  // Most sandboxes being started at once.
  uint32_t max_starting = 4;
};

struct LocalSettings {
  std::string state_dir;   // exists, ours alone
  std::string agent_path;  // the static sandbroker-agent
  std::string bwrap_path = "bwrap";
  // As root every sandbox runs under a host uid of its own from [first, first + count); otherwise
  // all run under the caller's.
  uid_t uid_first = 2000000;
  uint32_t uid_count = 4096;
  // Below which cgroup those of the sandboxes are made; empty = the one this process is in.
  std::string cgroup_parent;
  // What the backend found there when it probed the host.
  Cgroups cgroups;
  // From spawn to the first answer of the agent.
  Duration start_bound = std::chrono::seconds(20);
  // A link that dropped is dialled again for this long before the sandbox is given up and ended.
  Duration relink_bound = std::chrono::seconds(30);
  // A warm sandbox that hears from no broker for this long ends itself.
  Duration warm_backstop = std::chrono::minutes(10);
  // The agent of a sandbox that an earlier broker left must prove itself within this.
  Duration adopt_bound = std::chrono::seconds(10);
  // A broker that ends in good order leaves its sandboxes to the next one, as one that is killed.
  bool keep_sandboxes = false;
  std::map<std::string, TemplateSettings> templates;
  std::vector<PoolSettings> pools;
};

}  // namespace sandbroker::local

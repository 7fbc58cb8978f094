// Where the cgroups of sandboxes go and what is written into them: reads the texts of
// /proc/self/mountinfo and /proc/self/cgroup, knows both versions of cgroups. Pure; cgroups.h acts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sandbroker::local {

enum class CgroupVersion { kNone, kV1, kV2 };

struct CgroupPlace {
  CgroupVersion version = CgroupVersion::kNone;
  // Absolute; below it the broker makes its folder.
  std::string folder;
};

// What this host offers for limits of memory.
struct Cgroups {
  CgroupVersion version = CgroupVersion::kNone;
  std::string parent;  // where the broker's folder is or would be
  std::string folder;  // the broker's; sandboxes have theirs in it
  // Version 2 with the pids controller: processes are counted there too.
  bool pids = false;
  // Why it can't be used, and what to do; empty = it can.
  std::string why;
  std::string remedy;
  bool usable() const { return version != CgroupVersion::kNone && why.empty(); }
};

// Of `controller`, such as "memory". A version 1 hierarchy that has it wins over a version 2 mount,
// because a controller is in one of them only. `parent` is a path from the hierarchy's root; empty
// means the cgroup this process is in.
CgroupPlace FindCgroup(std::string_view controller, std::string_view mountinfo,
                       std::string_view self_cgroup, std::string_view parent);

// Name of the folder that holds all sandboxes of the broker with this state directory, so that
// brokers beside each other keep apart.
std::string CgroupGroupName(const std::string& state_dir);

struct CgroupWrite {
  std::string file;
  std::string value;
  // Missing where the kernel counts no swap: not worth a failure.
  bool optional = false;
};
std::vector<CgroupWrite> MemoryWrites(CgroupVersion version, uint64_t bytes);
CgroupWrite PidsWrite(uint32_t pids);  // version 2

// The file that counts the kernel's OOM kills in a line "oom_kill N".
std::string OomEventsFile(CgroupVersion version);

}  // namespace sandbroker::local

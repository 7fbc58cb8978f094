#include "lib/backend/local/cgroup_paths.h"

#include <algorithm>

#include "lib/base/crypto.h"
#include "lib/base/strings.h"

namespace sandbroker::local {
namespace {

// One line of mountinfo, as far as it matters here.
struct Mount {
  std::string_view root, target, kind, options;
};

bool ParseMount(std::string_view line, Mount* mount) {
  const size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return false;
  const auto before = StrSplit(line.substr(0, dash), ' ');
  const auto after = StrSplit(line.substr(dash + 3), ' ');
  if (before.size() < 5 || after.size() < 3) return false;
  *mount = {before[3], before[4], after[0], after[2]};
  return true;
}

bool HasWord(std::string_view list, std::string_view word) {
  const auto words = StrSplit(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "4:memory:/a/b", "0::/a/b": the path of the line whose list has the controller; version 2's is
// empty.
std::string_view OwnPath(std::string_view self_cgroup, std::string_view controller) {
  for (const std::string_view line : StrSplit(self_cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view list = line.substr(first + 1, second - first - 1);
    const bool found = controller.empty() ? list.empty() : HasWord(list, controller);
    if (found) return line.substr(second + 1);
  }
  return "";
}

// In a container the mount may show only a part of the hierarchy, which is then its root.
std::string Below(const Mount& mount, std::string_view path) {
  if (mount.root != "/" && path.starts_with(mount.root)) path.remove_prefix(mount.root.size());
  if (path == "/" || path.find("..") != std::string_view::npos) path = "";
  return StrCat(mount.target, path);
}

}  // namespace

CgroupPlace FindCgroup(std::string_view controller, std::string_view mountinfo,
                       std::string_view self_cgroup, std::string_view parent) {
  CgroupPlace place;
  for (const std::string_view line : StrSplit(mountinfo, '\n')) {
    Mount mount;
    if (!ParseMount(line, &mount)) continue;
    const bool v1 = mount.kind == "cgroup" && HasWord(mount.options, controller);
    const bool v2 = mount.kind == "cgroup2" && place.version == CgroupVersion::kNone;
    if (!v1 && !v2) continue;
    const std::string_view own = OwnPath(self_cgroup, v1 ? controller : "");
    place.version = v1 ? CgroupVersion::kV1 : CgroupVersion::kV2;
    place.folder = Below(mount, parent.empty() ? own : parent);
    if (v1) break;
  }
  return place;
}

std::string CgroupGroupName(const std::string& state_dir) {
  return StrCat("sandbroker-", HexEncode(Sha256(state_dir)).substr(0, 16));
}

std::vector<CgroupWrite> MemoryWrites(CgroupVersion version, uint64_t bytes) {
  const std::string limit = std::to_string(bytes);
  if (version == CgroupVersion::kV1) {
    return {{"memory.limit_in_bytes", limit, false}, {"memory.memsw.limit_in_bytes", limit, true}};
  }
  return {{"memory.max", limit, false}, {"memory.swap.max", "0", true}};
}

CgroupWrite PidsWrite(uint32_t pids) { return {"pids.max", std::to_string(pids), false}; }

std::string OomEventsFile(CgroupVersion version) {
  return version == CgroupVersion::kV1 ? "memory.oom_control" : "memory.events";
}

}  // namespace sandbroker::local

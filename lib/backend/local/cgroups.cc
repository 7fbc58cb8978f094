#include "lib/backend/local/cgroups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "lib/backend/local/host_facts.h"
#include "lib/backend/local/limits.h"
#include "lib/backend/local/record_files.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::local {
namespace {

constexpr char kRemedy[] =
    "run sandbrokerd as root, or in a cgroup that is its own (systemd: Delegate=yes), or "
    "name one with local.cgroup";

// 0 or an errno.
int Write(const std::string& path, const std::string& value) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return errno;
  const ssize_t done = write(file.get(), value.data(), value.size());
  return done == static_cast<ssize_t>(value.size()) ? 0 : errno;
}

void Unusable(Cgroups* cgroups, std::string why) {
  cgroups->why = std::move(why);
  cgroups->remedy = kRemedy;
}

bool HasController(const std::string& folder, std::string_view file, std::string_view name) {
  const std::string text = ReadSmallFile(StrCat(folder, "/", file));
  for (const std::string_view word : StrSplit(text, ' ')) {
    if (word == name) return true;
  }
  return false;
}

// Version 2 wants a cgroup with controllers below it to hold no process of its own, so the broker
// moves itself into one beside those of the sandboxes.
int EnableBelow(const std::string& folder, const std::string& controller) {
  if (HasController(folder, "cgroup.subtree_control", controller)) return 0;
  const std::string file = StrCat(folder, "/cgroup.subtree_control");
  int error = Write(file, "+" + controller);
  if (error != EBUSY) return error;
  const std::string own = StrCat(folder, "/broker");
  if (mkdir(own.c_str(), 0755) != 0 && errno != EEXIST) return errno;
  if (const int moved = Write(StrCat(own, "/cgroup.procs"), "0"); moved != 0) return moved;
  return Write(file, "+" + controller);
}

// Sandboxes whose folder is gone; rmdir leaves alone what still holds a process.
void Sweep(const LocalSettings& settings, const std::string& group) {
  const RecordFiles files(SandboxesIn(settings.state_dir));
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(group, ignored)) {
    const std::string uid = entry.path().filename().string();
    struct stat info;
    if (stat(files.FolderOf(uid).c_str(), &info) != 0) {
      rmdir(entry.path().c_str());
    }
  }
}

absl::Status Fill(const std::string& folder, const std::vector<CgroupWrite>& writes) {
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return MakeError(Reason::kNotReady, StrCat("mkdir ", folder, ": ", std::strerror(errno)));
  }
  for (const CgroupWrite& one : writes) {
    const int error = Write(StrCat(folder, "/", one.file), one.value);
    if (error == 0 || (one.optional && error == ENOENT)) continue;
    return MakeError(Reason::kNotReady,
                     StrCat(folder, "/", one.file, " = ", one.value, ": ", std::strerror(error)));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> Open(const std::string& path, int flags) {
  UniqueFd file(open(path.c_str(), flags | O_CLOEXEC));
  if (file.valid()) return file;
  return MakeError(Reason::kNotReady, StrCat(path, ": ", std::strerror(errno)));
}

// 0 or an errno; `where` names the folder.
int MakeFolder(const Cgroups& cgroups, std::string* where) {
  std::vector<std::string> controllers = {"memory"};
  if (cgroups.pids) controllers.emplace_back("pids");
  const bool v2 = cgroups.version == CgroupVersion::kV2;
  *where = cgroups.parent;
  for (size_t i = 0; v2 && i < controllers.size(); ++i) {
    if (const int error = EnableBelow(cgroups.parent, controllers[i])) return error;
  }
  *where = cgroups.folder;
  if (mkdir(cgroups.folder.c_str(), 0755) != 0 && errno != EEXIST) return errno;
  for (size_t i = 0; v2 && i < controllers.size(); ++i) {
    if (const int error = EnableBelow(cgroups.folder, controllers[i])) return error;
  }
  return 0;
}

}  // namespace

Cgroups LookAtCgroups(const LocalSettings& settings) {
  const CgroupPlace place = FindCgroup("memory", ReadSmallFile("/proc/self/mountinfo"),
                                       ReadSmallFile("/proc/self/cgroup"), settings.cgroup_parent);
  Cgroups cgroups;
  cgroups.version = place.version;
  cgroups.parent = place.folder;
  cgroups.folder = StrCat(place.folder, "/", CgroupGroupName(settings.state_dir));
  if (place.version == CgroupVersion::kNone) {
    cgroups.why = "no cgroup hierarchy with the memory controller is mounted";
    cgroups.remedy = "mount cgroup2, as every current distribution does";
    return cgroups;
  }
  if (place.version == CgroupVersion::kV2) {
    cgroups.pids = HasController(place.folder, "cgroup.controllers", "pids");
    if (!HasController(place.folder, "cgroup.controllers", "memory")) {
      Unusable(&cgroups,
               StrCat("the memory controller is not in ", place.folder, "/cgroup.controllers"));
      return cgroups;
    }
  }
  if (access(place.folder.c_str(), W_OK) != 0) {
    Unusable(&cgroups, StrCat(place.folder, ": ", std::strerror(errno)));
  }
  return cgroups;
}

Cgroups PrepareCgroups(const LocalSettings& settings) {
  Cgroups cgroups = LookAtCgroups(settings);
  if (!cgroups.usable()) return cgroups;
  if (MemoryLimitWanted(settings)) {
    std::string where;
    if (const int error = MakeFolder(cgroups, &where); error != 0) {
      Unusable(&cgroups, StrCat(where, ": ", std::strerror(error)));
      return cgroups;
    }
    // Once for trial, so that what would fail for each sandbox fails at the start.
    TemplateSettings trial;
    trial.memory_bytes = 1ull << 30;
    const absl::Status made = MakeSandboxCgroup(cgroups, "trial", trial).status();
    RemoveSandboxCgroup(cgroups, "trial");
    if (!made.ok()) {
      Unusable(&cgroups, std::string(MessageOf(made)));
      return cgroups;
    }
  }
  Sweep(settings, cgroups.folder);
  return cgroups;
}

absl::StatusOr<SandboxCgroup> MakeSandboxCgroup(const Cgroups& cgroups, const std::string& uid,
                                                const TemplateSettings& tmpl) {
  const std::string folder = StrCat(cgroups.folder, "/", uid);
  std::vector<CgroupWrite> writes = MemoryWrites(cgroups.version, tmpl.memory_bytes);
  if (cgroups.pids && tmpl.pids != 0) writes.push_back(PidsWrite(tmpl.pids));
  SANDBROKER_RETURN_IF_ERROR(Fill(folder, writes));
  absl::StatusOr<UniqueFd> procs = Open(StrCat(folder, "/cgroup.procs"), O_WRONLY);
  if (!procs.ok()) return procs.status();
  absl::StatusOr<UniqueFd> events =
      Open(StrCat(folder, "/", OomEventsFile(cgroups.version)), O_RDONLY);
  if (!events.ok()) return events.status();
  return SandboxCgroup{*std::move(procs), *std::move(events)};
}

void RemoveSandboxCgroup(const Cgroups& cgroups, const std::string& uid) {
  if (cgroups.usable()) rmdir(StrCat(cgroups.folder, "/", uid).c_str());
}

void RemoveCgroups(const Cgroups& cgroups) {
  if (cgroups.usable()) rmdir(cgroups.folder.c_str());
}

}  // namespace sandbroker::local

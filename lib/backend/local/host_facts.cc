#include "lib/backend/local/host_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/strings.h"

namespace sandbroker::local {

std::string ReadUpTo(const std::string& path, size_t limit) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[4096];
  ssize_t got = 0;
  while (text.size() < limit && (got = read(file.get(), part, sizeof(part))) > 0) {
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

std::string ReadSmallFile(const std::string& path) {
  return std::string(StripWhitespace(ReadUpTo(path, 1 << 20)));
}

HostFacts ReadHostFacts() {
  HostFacts facts;
  facts.userns_allowed = ReadSmallFile("/proc/sys/kernel/unprivileged_userns_clone") != "0" &&
                         ReadSmallFile("/proc/sys/user/max_user_namespaces") != "0";
  facts.apparmor_restricts_userns =
      ReadSmallFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1";
  facts.uid = geteuid();
  facts.is_root = facts.uid == 0;
  facts.seccomp =
      ReadSmallFile("/proc/sys/kernel/seccomp/actions_avail").find("errno") != std::string::npos;
  facts.kernel_pointers_hidden = ReadSmallFile("/proc/sys/kernel/kptr_restrict") != "0";
  utsname system = {};
  uname(&system);
  facts.kernel = system.release;
  return facts;
}

std::vector<HiddenPath> ExistingHiddenPaths() {
  std::vector<HiddenPath> found;
  for (const HiddenPath& path : HiddenProcPaths()) {
    struct stat info;
    if (stat(path.path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) == path.folder) {
      found.push_back(path);
    }
  }
  return found;
}

}  // namespace sandbroker::local

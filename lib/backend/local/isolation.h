// What a local sandbox is made of: the bubblewrap command line that takes everything away and
// gives back little. Pure; launcher.h acts on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/backend/local/settings.h"

namespace sandbroker::local {

// Descriptors the sandbox's first process is given (lib/guest expects them there); 6 is kept for a
// spill directory.
inline constexpr int kListenFd = 3;
inline constexpr int kSecretFd = 4;
inline constexpr int kCgroupProcsFd = 5;
inline constexpr int kAgentFd = 7;
inline constexpr int kOomEventsFd = 9;
// Descriptors for bubblewrap itself, which closes them: where it says the child's pid, the filter
// of system calls, and the contents of the files in /etc.
inline constexpr int kInfoFd = 8;
inline constexpr int kSeccompFd = 10;
inline constexpr int kFirstEtcFd = 11;

struct EtcFile {
  std::string path;
  std::string content;
};
// passwd, group, hosts, nsswitch.conf: enough for programs to name their user and localhost.
std::vector<EtcFile> MinimalEtc();

// What of /proc says more about the host than a program needs. A file becomes unreadable, a folder
// empty. Only paths that exist can be covered, so the launcher looks which do.
struct HiddenPath {
  std::string path;
  bool folder = false;
};
std::vector<HiddenPath> HiddenProcPaths();

// argv of bubblewrap, up to and with the agent's own arguments.
std::vector<std::string> BubblewrapArgv(const std::string& bwrap, const TemplateSettings& tmpl,
                                        const std::vector<HiddenPath>& hidden,
                                        const std::vector<std::string>& command);

// What the host says about itself (host_facts.h reads it).
struct HostFacts {
  // kernel.unprivileged_userns_clone and user.max_user_namespaces; true when neither forbids.
  bool userns_allowed = true;
  bool apparmor_restricts_userns = false;
  // As root each sandbox has a host uid of its own.
  bool is_root = false;
  uint32_t uid = 0;
  bool seccomp = false;
  bool kernel_pointers_hidden = false;
  std::string kernel;  // "6.1.0-17-amd64"
};

// What to tell an operator when bubblewrap could not do it: the cause in words and the remedy.
std::string ExplainFailure(const std::string& stderr_text, const HostFacts& host);

}  // namespace sandbroker::local

// What a local sandbox is made of: the bubblewrap command line that takes everything away and
// gives back little. Pure; launcher.h acts on it.
#pragma once

#include <string>
#include <vector>

#include "lib/backend/local/settings.h"

namespace sandbroker::local {

// Descriptors the sandbox's first process is given (lib/guest expects them there).
inline constexpr int kListenFd = 3;
inline constexpr int kSecretFd = 4;
inline constexpr int kAgentFd = 7;
// Descriptors for bubblewrap itself, which closes them: where it says the child's pid, and the
// contents of the files in /etc.
inline constexpr int kInfoFd = 8;
inline constexpr int kFirstEtcFd = 9;

struct EtcFile {
  std::string path;
  std::string content;
};
// passwd, group, hosts, nsswitch.conf: enough for programs to name their user and localhost.
std::vector<EtcFile> MinimalEtc();

// argv of bubblewrap, up to and with the agent's own arguments.
std::vector<std::string> BubblewrapArgv(const std::string& bwrap, const TemplateSettings& tmpl,
                                        const std::vector<std::string>& command);

// What to tell an operator when bubblewrap could not do it: the cause in words and the remedy.
std::string ExplainFailure(const std::string& stderr_text);

}  // namespace sandbroker::local

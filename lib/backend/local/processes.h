// Looking at the host's processes by names that can't be mistaken: a pid counts only together with
// its start time, and is acted on through a pidfd that was opened before the two were compared.
// Reads /proc; blocks for microseconds (one process) or milliseconds (all). Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/fd.h"

namespace sandbroker::local {

// One life of one pid. `start` in clock ticks since the host's boot.
struct ProcessName {
  pid_t pid = 0;
  uint64_t start = 0;
};

// Where pids and start times mean what they meant: this boot of the host, this pid namespace.
std::string HostName();

std::optional<uint64_t> StartTimeOf(pid_t pid);
// Of whoever has that number now; invalid if nobody.
UniqueFd OpenPidfd(pid_t pid);
// A pidfd of this very process; invalid once it has ended.
UniqueFd OpenProcess(const ProcessName& name);

bool SignalProcess(int pidfd, int number);

// The argument of an agent's and its bubblewrap's command line that names their sandbox.
inline constexpr char kSandboxFlag[] = "--sandbox";

// Every process whose command line has kSandboxFlag, by the uid that follows it. A program inside a
// sandbox can claim such a name, and is then ended with those it names: nothing else follows.
// One in the middle of execve is not seen, since its command line is empty for that moment: an
// agent missed so hears from no broker and ends itself (start_bound and a little more).
std::map<std::string, std::vector<pid_t>> FindMarked();
// Kills until none of them is found any more. The uids of those that were not gone within `bound`.
std::set<std::string> EndMarked(const std::set<std::string>& uids, Duration bound);

}  // namespace sandbroker::local

#include "lib/backend/local/processes.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "lib/backend/local/host_facts.h"
#include "lib/base/ids.h"
#include "lib/base/strings.h"

namespace sandbroker::local {
namespace {

constexpr size_t kMaxProcFile = 64 * 1024;
constexpr size_t kStartTimeField = 19;  // of /proc/PID/stat, counted from behind the name

bool HasEnded(int pidfd, int wait_ms) {
  pollfd ended{pidfd, POLLIN, 0};
  return poll(&ended, 1, wait_ms) > 0;
}

// What follows kSandboxFlag in the command line of `pid`; empty if it is not there.
std::string MarkOf(pid_t pid) {
  const std::string text = ReadUpTo(StrCat("/proc/", pid, "/cmdline"), kMaxProcFile);
  const auto arguments = StrSplit(text, '\0');
  for (size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == kSandboxFlag && IsValidId(arguments[i + 1])) {
      return std::string(arguments[i + 1]);
    }
  }
  return "";
}

}  // namespace

std::string HostName() {
  char space[64] = {};
  const ssize_t size = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);
  return StrCat(ReadSmallFile("/proc/sys/kernel/random/boot_id"), "/",
                std::string_view(space, std::max<ssize_t>(size, 0)));
}

std::optional<uint64_t> StartTimeOf(pid_t pid) {
  const std::string text = ReadUpTo(StrCat("/proc/", pid, "/stat"), kMaxProcFile);
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return std::nullopt;
  const auto fields = StrSplit(std::string_view(text).substr(name_end + 2), ' ');
  if (fields.size() <= kStartTimeField) return std::nullopt;
  const std::string_view number = fields[kStartTimeField];
  uint64_t start = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), start);
  if (parsed.ec != std::errc()) return std::nullopt;
  return start;
}

UniqueFd OpenPidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

UniqueFd OpenProcess(const ProcessName& name) {
  UniqueFd pidfd = OpenPidfd(name.pid);
  // The pidfd holds whoever it is; now its start time says who that is.
  if (!pidfd.valid() || StartTimeOf(name.pid) != name.start || HasEnded(pidfd.get(), 0)) {
    return UniqueFd();
  }
  return pidfd;
}

bool SignalProcess(int pidfd, int number) {
  return syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0) == 0;
}

std::map<std::string, std::vector<pid_t>> FindMarked() {
  std::map<std::string, std::vector<pid_t>> found;
  DIR* const processes = opendir("/proc");
  if (processes == nullptr) return found;
  while (const dirent* entry = readdir(processes)) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    const pid_t pid = std::atoi(entry->d_name);
    const std::string uid = MarkOf(pid);
    if (!uid.empty()) found[uid].push_back(pid);
  }
  closedir(processes);
  return found;
}

std::set<std::string> EndMarked(const std::set<std::string>& uids, Duration bound) {
  const auto end = std::chrono::steady_clock::now() + bound;
  while (true) {
    std::set<std::string> left;
    std::vector<UniqueFd> killed;
    for (const auto& [uid, pids] : FindMarked()) {
      if (uids.count(uid) == 0) continue;
      for (const pid_t pid : pids) {
        UniqueFd pidfd = OpenPidfd(pid);
        // Looked at again behind the pidfd: the number may be another's by now.
        if (!pidfd.valid() || MarkOf(pid) != uid || HasEnded(pidfd.get(), 0)) continue;
        left.insert(uid);
        if (SignalProcess(pidfd.get(), SIGKILL)) killed.push_back(std::move(pidfd));
      }
    }
    if (left.empty() || std::chrono::steady_clock::now() >= end) return left;
    for (const UniqueFd& pidfd : killed) {
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      HasEnded(pidfd.get(), static_cast<int>(std::max<int64_t>(wait.count(), 0)));
    }
    // One that could not be signalled (another's) is not asked for in a tight loop.
    if (killed.empty()) poll(nullptr, 0, 20);
  }
}

}  // namespace sandbroker::local

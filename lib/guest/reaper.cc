#include "lib/guest/reaper.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "lib/base/fd.h"

namespace sandbroker::guest {
namespace {

constexpr char kChildren[] = "/proc/thread-self/children";

}  // namespace

Reaper::Reaper() { can_keep_ = ::access(kChildren, R_OK) == 0; }

void Reaper::Watch(pid_t leader, std::function<void(const siginfo_t&)> on_ended) {
  leaders_.emplace(leader, std::move(on_ended));
}

void Reaper::Reap(pid_t leader) {
  siginfo_t info = {};
  ::waitid(P_PID, leader, &info, WEXITED | WNOHANG);
  kept_.erase(leader);
}

// Answers whether an orphan was reaped.
bool Reaper::Handle(const siginfo_t& info) {
  const auto it = leaders_.find(info.si_pid);
  if (it == leaders_.end()) {
    siginfo_t reaped = {};
    ::waitid(P_PID, info.si_pid, &reaped, WEXITED | WNOHANG);
    return true;
  }
  const auto on_ended = std::move(it->second);
  leaders_.erase(it);
  kept_.insert(info.si_pid);
  on_ended(info);
  return false;
}

void Reaper::Collect() {
  bool orphans = false;
  while (true) {
    siginfo_t info = {};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    if (kept_.count(info.si_pid) != 0) {
      // It stands in front of all that ended after it.
      CollectFromList();
      orphans = true;
      break;
    }
    orphans |= Handle(info);
  }
  if (orphans && on_orphans_) on_orphans_();
}

void Reaper::CollectFromList() {
  for (const pid_t pid : ListChildren()) {
    if (kept_.count(pid) != 0) continue;
    siginfo_t info = {};
    if (::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid) {
      Handle(info);
    }
  }
}

std::vector<pid_t> Reaper::ListChildren() const {
  std::vector<pid_t> pids;
  UniqueFd fd(::open(kChildren, O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  ssize_t n;
  while ((n = ::read(fd.get(), buffer, sizeof(buffer))) > 0) text.append(buffer, n);
  const char* at = text.c_str();
  char* end = nullptr;
  for (long pid = std::strtol(at, &end, 10); end != at; pid = std::strtol(at, &end, 10)) {
    pids.push_back(static_cast<pid_t>(pid));
    at = end;
  }
  return pids;
}

}  // namespace sandbroker::guest

#include "lib/guest/sessions.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/base/fd.h"

namespace sandbroker::guest {
namespace {

// A round ends what was there at its beginning; what was forked meanwhile falls in the next.
constexpr int kMaxRounds = 100;

// True when `pid` is alive (not a zombie) and in session `session`.
bool AliveInSession(int proc, const char* pid, pid_t session) {
  char name[64];
  std::snprintf(name, sizeof(name), "%s/stat", pid);
  UniqueFd fd(::openat(proc, name, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return false;
  char text[512];
  const ssize_t n = ::read(fd.get(), text, sizeof(text) - 1);
  if (n <= 0) return false;
  text[n] = '\0';
  // "pid (name) state ppid pgrp session": the name may hold anything, so search from behind.
  const char* after_name = ::strrchr(text, ')');
  char state = 0;
  int parent = 0, group = 0, its_session = 0;
  if (after_name == nullptr ||
      std::sscanf(after_name + 1, " %c %d %d %d", &state, &parent, &group, &its_session) != 4) {
    return false;
  }
  return its_session == session && state != 'Z' && state != 'X';
}

// Calls fn(proc, name, pid) for each other live member of the session, until it answers false.
template <class Fn>
void ForEachOther(pid_t leader, Fn fn) {
  DIR* dir = ::opendir("/proc");
  if (dir == nullptr) return;
  while (const dirent* entry = ::readdir(dir)) {
    const int pid = std::atoi(entry->d_name);
    if (pid <= 0 || pid == leader) continue;
    if (!AliveInSession(::dirfd(dir), entry->d_name, leader)) continue;
    if (!fn(::dirfd(dir), entry->d_name, pid)) break;
  }
  ::closedir(dir);
}

// The pidfd is opened before the second look, so the signal can't reach a successor of the pid.
void KillIfStillMember(int proc, const char* name, pid_t pid, pid_t session) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid() || !AliveInSession(proc, name, session)) return;
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
}

}  // namespace

void SignalGroup(pid_t leader, int signal) { ::kill(-leader, signal); }

void KillSession(pid_t leader) {
  ::kill(-leader, SIGKILL);
  bool found = true;
  for (int round = 0; found && round < kMaxRounds; ++round) {
    found = false;
    ForEachOther(leader, [&](int proc, const char* name, pid_t pid) {
      found = true;
      KillIfStillMember(proc, name, pid, leader);
      return true;
    });
  }
}

bool SessionHasOthers(pid_t leader) {
  bool found = false;
  ForEachOther(leader, [&](int, const char*, pid_t) {
    found = true;
    return false;
  });
  return found;
}

}  // namespace sandbroker::guest

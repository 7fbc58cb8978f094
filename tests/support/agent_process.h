// The real agent as a child of the test, over a unix socket in a folder of its own. Test thread
// only.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lib/base/fd.h"

namespace sandbroker::test {

// Whether the process is there and not a zombie.
bool Runs(pid_t pid);

// What an agent may hold is bounded in bytes; instrumented, each of its allocations takes more.
#ifdef SANDBROKER_SANITIZED
inline constexpr size_t kMemoryFactor = 4;
#else
inline constexpr size_t kMemoryFactor = 1;
#endif

class AgentProcess {
 public:
  // Starts it with these further flags; `env` as "NAME=value".
  explicit AgentProcess(const std::vector<std::string>& flags = {},
                        const std::vector<std::string>& env = {"PATH=/usr/bin:/bin"});
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  const std::string& socket_path() const { return socket_path_; }
  const std::string& secret() const { return secret_; }
  const std::string& dir() const { return dir_; }
  pid_t pid() const { return pid_; }

  bool alive() const;
  size_t open_fds() const;
  // Children of it in state Z.
  size_t zombies() const;
  // All live processes below it but its supervisors; and those.
  std::vector<pid_t> programs() const;
  std::vector<pid_t> supervisors() const;
  size_t resident_bytes() const;
  size_t threads() const;
  // Waits for it to end by itself; its wait status, or -1 when the bound ran out.
  int WaitEnd();

 private:
  std::vector<pid_t> Below(bool supervisors) const;

  std::string dir_;
  std::string socket_path_;
  std::string secret_;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

}  // namespace sandbroker::test

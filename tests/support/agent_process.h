// The real agent as a child of the test, with a folder of its own: over a unix socket in it, or by
// TLS on loopback. Test thread only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/signing.h"

namespace sandbroker::test {

// Whether the process is there and not a zombie.
bool Runs(pid_t pid);

// What an agent may hold is bounded in bytes; instrumented, each of its allocations takes more.
#ifdef SANDBROKER_SANITIZED
inline constexpr size_t kMemoryFactor = 4;
#else
inline constexpr size_t kMemoryFactor = 1;
#endif

// How to reach it: a unix socket and a secret, or a port of loopback and a broker's key.
struct AgentDoor {
  std::string path;
  std::string secret;
  uint16_t port = 0;
  std::optional<SigningKey> key;
};

enum class Over { kUnix, kTls };

struct AgentSetup {
  Over over = Over::kUnix;
  std::vector<std::string> flags = {};                    // further ones
  std::vector<std::string> env = {"PATH=/usr/bin:/bin"};  // "NAME=value"
  std::optional<std::pair<uid_t, gid_t>> user = {};       // needs root
};

class AgentProcess {
 public:
  explicit AgentProcess(const std::vector<std::string>& flags = {},
                        const std::vector<std::string>& env = {"PATH=/usr/bin:/bin"})
      : AgentProcess(AgentSetup{Over::kUnix, flags, env}) {}
  // Over TLS it listens when the constructor returns.
  explicit AgentProcess(const AgentSetup& setup);
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  const std::string& socket_path() const { return door_.path; }
  const std::string& secret() const { return door_.secret; }
  const AgentDoor& door() const { return door_; }
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
  void AwaitPort();

  std::string dir_;
  AgentDoor door_;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

}  // namespace sandbroker::test

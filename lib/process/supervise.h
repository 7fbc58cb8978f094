// Starting a program below a supervisor: a small process of ours that is subreaper of everything
// the program starts, says how the program ended, and does nothing else. Killing it makes all that
// is left of its tree children of the caller, who must be a subreaper or PID 1. The thread that
// starts supervisors is their parent; with it they end.
//
// The program is never reaped by its supervisor: its pid, and with it the number of its process
// group, stays taken until it has become the caller's own zombie child, which happens when the
// supervisor ends.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>

#include "lib/base/fd.h"
#include "lib/process/spawn.h"

namespace sandbroker {

// What a supervisor writes to its caller, as it is in memory; each kind once at most.
struct SupervisorEvent {
  enum Kind : int {
    kProgramEnded = 1,  // the other two as si_code and si_status
    kOthersRemain,      // it ended, and others of its tree did not
    kSessionGone,       // nobody of its session is left but itself
  };
  int kind = 0;
  int code = 0;
  int status = 0;
};

// What caller and supervisor share.
struct SupervisorBoard {
  // 0 = not cloned yet. Its own child's pid, so nobody else has it before the caller reaps it.
  int program = 0;
  SpawnError failure{};
  // Only where the kernel lists no children: the supervisor had to reap the program, and its pid
  // must not be used any more. Set before it is reaped; read by __atomic_load_n.
  int program_reaped = 0;
};

// Memory that supervisors live on, given back to those that come later. Not thread-safe.
class SupervisorPool {
 public:
  SupervisorPool();
  // `children_list`: where a process finds its own children.
  explicit SupervisorPool(const char* children_list);
  struct Region;
  // Empty when there is no memory. The region may only be let go of once its supervisor was reaped.
  std::shared_ptr<Region> Take();

 private:
  struct Free;
  std::shared_ptr<Free> free_;
  const char* children_list_;
};

// SIGKILL to the supervisor, which is the caller's unreaped child, hands its tree over.
struct Supervised {
  pid_t supervisor = -1;
  pid_t program = -1;
  UniqueFd events;  // non-blocking; of SupervisorEvent, closed when the supervisor ends
  std::shared_ptr<SupervisorPool::Region> region;
  const SupervisorBoard* board = nullptr;  // lives as long as the region
};

// Returns once the program was exec'ed or has failed to be, as Spawn does; then nothing is left of
// both. A supervisor that was killed meanwhile shows by its end; the program is then the caller's.
std::optional<SpawnError> Supervise(const SpawnSpec& spec, SupervisorPool* pool, Supervised* out);

}  // namespace sandbroker

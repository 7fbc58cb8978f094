#include "lib/process/spawn.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "lib/process/child_program.h"

namespace sandbroker {
namespace {

// Where the child leaves its failure: our own memory when it shares that, else a shared page.
class FailureSlot {
 public:
  FailureSlot() {
#ifdef SANDBROKER_SANITIZED
    void* page = ::mmap(nullptr, sizeof(SpawnError), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    slot_ = page == MAP_FAILED ? nullptr : static_cast<SpawnError*>(page);
    if (slot_ != nullptr) *slot_ = {};
#endif
  }
  ~FailureSlot() {
#ifdef SANDBROKER_SANITIZED
    if (slot_ != nullptr) ::munmap(slot_, sizeof(SpawnError));
#endif
  }
  FailureSlot(const FailureSlot&) = delete;
  FailureSlot& operator=(const FailureSlot&) = delete;
  SpawnError* get() { return slot_; }

 private:
  SpawnError own_{};
  SpawnError* slot_ = &own_;
};

pid_t CloneChild(ProgramPlan* plan, int* pidfd) {
  // CLONE_VFORK holds this thread until exec or exit, so the child may use a stretch of our stack.
  alignas(16) char stack[16 * 1024];
  const AllSignalsBlocked blocked;
  return ::clone(&BecomeProgram, stack + sizeof(stack),
                 SANDBROKER_CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, plan, pidfd);
}

void Reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::optional<SpawnError> Spawn(const SpawnSpec& spec, Spawned* out) {
  if (spec.argv.empty()) return SpawnError{EINVAL, "exec"};
  FailureSlot failure;
  if (failure.get() == nullptr) return SpawnError{ENOMEM, "fork"};
  PreparedProgram program(spec, failure.get());
  int pidfd = -1;
  const pid_t pid = CloneChild(program.plan(), &pidfd);
  if (pid < 0) return SpawnError{errno, "fork"};
  UniqueFd owned(pidfd);
  if (failure.get()->step != nullptr) {
    Reap(pid);
    return *failure.get();
  }
  out->pid = pid;
  out->pidfd = std::move(owned);
  return std::nullopt;
}

}  // namespace sandbroker

#include "lib/process/spawn.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>

// The child shares our memory until exec (CLONE_VM), which is what makes a start cheap. Under a
// sanitizer it gets a copy instead, because instrumented code in it would write to our shadow.
#ifdef SANDBROKER_SANITIZED
#define SANDBROKER_CHILD_CODE __attribute__((no_sanitize("address", "undefined", "thread")))
#define SANDBROKER_CLONE_VM 0
#else
#define SANDBROKER_CHILD_CODE
#define SANDBROKER_CLONE_VM CLONE_VM
#endif

namespace sandbroker {
namespace {

constexpr int kSignals = 64;
using KernelSigset = uint64_t;

struct KernelSigaction {
  void* handler = nullptr;  // SIG_DFL
  unsigned long flags = 0;
  void* restorer = nullptr;
  KernelSigset mask = 0;
};

// Everything the child needs, laid out beforehand; it allocates nothing.
struct Plan {
  const char* path;
  char* const* argv;
  char* const* env;
  const char* cwd;           // nullptr = unchanged
  std::pair<int, int>* fds;  // source, target
  size_t fd_count;
  int first_free;  // above every target
  const ResourceLimit* rlimits;
  size_t rlimit_count;
  const SpawnSpec* spec;
  SpawnError* failure;  // in memory that parent and child share
};

template <class... Args>
SANDBROKER_CHILD_CODE long Raw(long number, Args... args) {
  return ::syscall(number, args...);
}

[[noreturn]] SANDBROKER_CHILD_CODE void Fail(const Plan* plan, const char* step) {
  plan->failure->error_number = errno;
  plan->failure->step = step;
  while (true) Raw(SYS_exit_group, 127);
}

SANDBROKER_CHILD_CODE bool IsTarget(const Plan* plan, int fd) {
  for (size_t i = 0; i < plan->fd_count; ++i) {
    if (plan->fds[i].second == fd) return true;
  }
  return false;
}

SANDBROKER_CHILD_CODE void CloseFrom(int first) {
  if (Raw(SYS_close_range, static_cast<unsigned>(first), UINT_MAX, 0) == 0) return;
  struct rlimit limit = {};
  Raw(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);
  for (rlim_t fd = first; fd < limit.rlim_cur; ++fd) Raw(SYS_close, fd);
}

// Sources that stand where a target goes are first moved above all targets.
SANDBROKER_CHILD_CODE void PlaceFds(const Plan* plan) {
  for (size_t i = 0; i < plan->fd_count; ++i) {
    int* source = &plan->fds[i].first;
    if (*source >= plan->first_free) continue;
    const long moved = Raw(SYS_fcntl, *source, F_DUPFD, plan->first_free);
    if (moved < 0) Fail(plan, "fds");
    *source = static_cast<int>(moved);
  }
  for (size_t i = 0; i < plan->fd_count; ++i) {
    if (Raw(SYS_dup3, plan->fds[i].first, plan->fds[i].second, 0) < 0) Fail(plan, "fds");
  }
  for (int fd = 0; fd < plan->first_free; ++fd) {
    if (!IsTarget(plan, fd)) Raw(SYS_close, fd);
  }
  CloseFrom(plan->first_free);
}

SANDBROKER_CHILD_CODE void SetLimitsAndUser(const Plan* plan) {
  for (size_t i = 0; i < plan->rlimit_count; ++i) {
    const struct rlimit limit = {plan->rlimits[i].soft, plan->rlimits[i].hard};
    if (Raw(SYS_prlimit64, 0, plan->rlimits[i].resource, &limit, nullptr) != 0) {
      Fail(plan, "rlimit");
    }
  }
  if (plan->spec->user) {
    const auto& [uid, gid] = *plan->spec->user;
    if (Raw(SYS_setgroups, 0, nullptr) != 0 || Raw(SYS_setresgid, gid, gid, gid) != 0 ||
        Raw(SYS_setresuid, uid, uid, uid) != 0) {
      Fail(plan, "user");
    }
  }
  if (plan->spec->no_new_privileges && Raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    Fail(plan, "user");
  }
}

SANDBROKER_CHILD_CODE int ChildMain(void* argument) {
  const Plan* plan = static_cast<const Plan*>(argument);
  if (plan->spec->new_session) Raw(SYS_setsid);
  if (plan->spec->cgroup_procs_fd >= 0 &&
      Raw(SYS_write, plan->spec->cgroup_procs_fd, "0", 1) != 1) {
    Fail(plan, "cgroup");
  }
  PlaceFds(plan);
  SetLimitsAndUser(plan);
  if (plan->cwd != nullptr && Raw(SYS_chdir, plan->cwd) != 0) Fail(plan, "cwd");
  // Handled signals become default by exec; ignored ones would stay ignored.
  const KernelSigaction by_default;
  for (int number = 1; number <= kSignals; ++number) {
    Raw(SYS_rt_sigaction, number, &by_default, nullptr, sizeof(KernelSigset));
  }
  const KernelSigset none = 0;
  Raw(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(none));
  Raw(SYS_execve, plan->path, plan->argv, plan->env);
  Fail(plan, "exec");
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

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

// No handler of ours may run in the child, whose stack and memory are borrowed.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    const KernelSigset all = ~KernelSigset{0};
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof(all));
  }
  ~AllSignalsBlocked() {
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
  }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  KernelSigset before_ = 0;
};

pid_t CloneChild(Plan* plan, int* pidfd) {
  // CLONE_VFORK holds this thread until exec or exit, so the child may use a stretch of our stack.
  alignas(16) char stack[16 * 1024];
  const AllSignalsBlocked blocked;
  return ::clone(&ChildMain, stack + sizeof(stack),
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
  const std::vector<char*> argv = Pointers(spec.argv);
  const std::vector<char*> env = Pointers(spec.env);
  std::vector<std::pair<int, int>> fds = spec.fds;
  Plan plan{};
  plan.path = spec.path.c_str();
  plan.argv = argv.data();
  plan.env = env.data();
  plan.cwd = spec.cwd.empty() ? nullptr : spec.cwd.c_str();
  plan.fds = fds.data();
  plan.fd_count = fds.size();
  for (const auto& [source, target] : fds) plan.first_free = std::max(plan.first_free, target + 1);
  plan.rlimits = spec.rlimits.data();
  plan.rlimit_count = spec.rlimits.size();
  plan.spec = &spec;
  plan.failure = failure.get();
  int pidfd = -1;
  const pid_t pid = CloneChild(&plan, &pidfd);
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

#include "lib/process/child_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>

namespace sandbroker {
namespace {

struct KernelSigaction {
  void* handler = nullptr;  // SIG_DFL
  unsigned long flags = 0;
  void* restorer = nullptr;
  KernelSigset mask = 0;
};

[[noreturn]] SANDBROKER_CHILD_CODE void Fail(const ProgramPlan* plan, const char* step,
                                             long result) {
  plan->failure->error_number = static_cast<int>(-result);
  plan->failure->step = step;
  RawExit(127);
}

SANDBROKER_CHILD_CODE bool IsTarget(const ProgramPlan* plan, int fd) {
  for (size_t i = 0; i < plan->fd_count; ++i) {
    if (plan->fds[i].second == fd) return true;
  }
  return false;
}

SANDBROKER_CHILD_CODE int MoveAbove(const ProgramPlan* plan, int fd, int command) {
  const long moved = Raw(SYS_fcntl, fd, command, plan->first_free);
  if (moved < 0) Fail(plan, "fds", moved);
  return static_cast<int>(moved);
}

SANDBROKER_CHILD_CODE void CloseOthers(const ProgramPlan* plan, int kept) {
  for (int fd = 0; fd < plan->first_free; ++fd) {
    if (!IsTarget(plan, fd)) Raw(SYS_close, fd);
  }
  if (kept < 0) return CloseFds(static_cast<unsigned>(plan->first_free), UINT_MAX);
  if (kept > plan->first_free) {
    CloseFds(static_cast<unsigned>(plan->first_free), static_cast<unsigned>(kept) - 1);
  }
  CloseFds(static_cast<unsigned>(kept) + 1, UINT_MAX);
}

// Sources that stand where a target goes are first moved above all targets.
SANDBROKER_CHILD_CODE void PlaceFds(const ProgramPlan* plan) {
  int kept = plan->keep_until_exec;
  if (kept >= 0 && kept < plan->first_free) kept = MoveAbove(plan, kept, F_DUPFD_CLOEXEC);
  for (size_t i = 0; i < plan->fd_count; ++i) {
    int* source = &plan->fds[i].first;
    if (*source < plan->first_free) *source = MoveAbove(plan, *source, F_DUPFD);
  }
  for (size_t i = 0; i < plan->fd_count; ++i) {
    const long placed = Raw(SYS_dup3, plan->fds[i].first, plan->fds[i].second, 0);
    if (placed < 0) Fail(plan, "fds", placed);
  }
  CloseOthers(plan, kept);
}

SANDBROKER_CHILD_CODE void SetLimitsAndUser(const ProgramPlan* plan) {
  long result = 0;
  for (size_t i = 0; i < plan->rlimit_count; ++i) {
    const struct rlimit limit = {plan->rlimits[i].soft, plan->rlimits[i].hard};
    result = Raw(SYS_prlimit64, 0, plan->rlimits[i].resource, &limit, nullptr);
    if (result != 0) Fail(plan, "rlimit", result);
  }
  if (plan->spec->user) {
    const auto& [uid, gid] = *plan->spec->user;
    if ((result = Raw(SYS_setgroups, 0, nullptr)) != 0 ||
        (result = Raw(SYS_setresgid, gid, gid, gid)) != 0 ||
        (result = Raw(SYS_setresuid, uid, uid, uid)) != 0) {
      Fail(plan, "user", result);
    }
  }
  if (plan->spec->no_new_privileges) {
    result = Raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (result != 0) Fail(plan, "user", result);
  }
}

SANDBROKER_CHILD_CODE void EnterCgroup(const ProgramPlan* plan) {
  if (plan->spec->cgroup_procs_fd < 0) return;
  const long result = Raw(SYS_write, plan->spec->cgroup_procs_fd, "0", 1);
  if (result != 1) Fail(plan, "cgroup", result);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

SANDBROKER_CHILD_CODE int BecomeProgram(void* argument) {
  const ProgramPlan* plan = static_cast<const ProgramPlan*>(argument);
  if (plan->spec->new_session) Raw(SYS_setsid);
  EnterCgroup(plan);
  PlaceFds(plan);
  SetLimitsAndUser(plan);
  if (plan->cwd != nullptr) {
    const long result = Raw(SYS_chdir, plan->cwd);
    if (result != 0) Fail(plan, "cwd", result);
  }
  // Handled signals become default by exec; ignored ones would stay ignored.
  const KernelSigaction by_default;
  for (int number = 1; number <= kSignals; ++number) {
    Raw(SYS_rt_sigaction, number, &by_default, nullptr, sizeof(KernelSigset));
  }
  const KernelSigset none = 0;
  Raw(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(none));
  Fail(plan, "exec", Raw(SYS_execve, plan->path, plan->argv, plan->env));
}

SANDBROKER_CHILD_CODE void CloseFds(unsigned first, unsigned last) {
  if (first > last || Raw(SYS_close_range, first, last, 0) == 0) return;
  struct rlimit limit = {};
  Raw(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);
  for (rlim_t fd = first; fd <= last && fd < limit.rlim_cur; ++fd) Raw(SYS_close, fd);
}

PreparedProgram::PreparedProgram(const SpawnSpec& spec, SpawnError* failure)
    : argv_(Pointers(spec.argv)), env_(Pointers(spec.env)), fds_(spec.fds) {
  plan_.path = spec.path.c_str();
  plan_.argv = argv_.data();
  plan_.env = env_.data();
  plan_.cwd = spec.cwd.empty() ? nullptr : spec.cwd.c_str();
  plan_.fds = fds_.data();
  plan_.fd_count = fds_.size();
  for (const auto& [source, target] : fds_) {
    plan_.first_free = std::max(plan_.first_free, target + 1);
  }
  plan_.rlimits = spec.rlimits.data();
  plan_.rlimit_count = spec.rlimits.size();
  plan_.spec = &spec;
  plan_.failure = failure;
}

AllSignalsBlocked::AllSignalsBlocked() {
  const KernelSigset all = ~KernelSigset{0};
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof(all));
}

AllSignalsBlocked::~AllSignalsBlocked() {
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
}

}  // namespace sandbroker

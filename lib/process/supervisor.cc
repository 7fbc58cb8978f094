#include "lib/process/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <climits>

namespace sandbroker {
namespace {

constexpr char kName[] = "supervisor";

SANDBROKER_CHILD_CODE void Tell(const SupervisorTask* task, int kind, const siginfo_t* info) {
  SupervisorEvent event;
  event.kind = kind;
  if (info != nullptr) {
    event.code = info->si_code;
    event.status = info->si_status;
  }
  Raw(SYS_write, task->events, &event, sizeof(event));
}

SANDBROKER_CHILD_CODE bool TryReap(int pid) {
  return Raw(SYS_wait4, pid, nullptr, WNOHANG, nullptr) == pid;
}

// The caller learns of exec from the kernel and not from us, who need not be woken for it.
SANDBROKER_CHILD_CODE void StartProgram(SupervisorTask* task) {
  const long pid =
      RawClone(SANDBROKER_CLONE_VM | CLONE_PARENT_SETTID | SIGCHLD, task->program_stack_top,
               &BecomeProgram, task->plan, &task->board.program);
  if (pid < 0) {
    task->board.failure.error_number = static_cast<int>(-pid);
    task->board.failure.step = "fork";
    RawExit(0);
  }
  // All that the program was given, so that its ends of pipes are its alone.
  if (task->events > 0) CloseFds(0, static_cast<unsigned>(task->events) - 1);
  CloseFds(static_cast<unsigned>(task->events) + 1, UINT_MAX);
}

// The program stays unreaped; whoever else ends meanwhile does not.
SANDBROKER_CHILD_CODE void AwaitProgram(SupervisorTask* task) {
  while (true) {
    siginfo_t info = {};
    Raw(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOWAIT, nullptr);
    if (info.si_pid == task->board.program)
      return Tell(task, SupervisorEvent::kProgramEnded, &info);
    TryReap(info.si_pid);
  }
}

struct Census {
  bool known = false;
  bool reaped = false;      // somebody was: look again
  bool others = false;      // alive, besides the program
  bool in_session = false;  // one of them in the program's session
};

SANDBROKER_CHILD_CODE void Count(int pid, int program, Census* census) {
  if (pid == program) return;
  if (TryReap(pid)) {
    census->reaped = true;
    return;
  }
  census->others = true;
  // Whoever is in the session has a forebear in it, up to a child of ours.
  census->in_session |= Raw(SYS_getsid, pid) == program;
}

// The dead program stands in front of all others in any wait, so they are found by list.
SANDBROKER_CHILD_CODE Census TakeCensus(const SupervisorTask* task) {
  Census census;
  const long fd = Raw(SYS_openat, AT_FDCWD, task->children_list, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return census;
  census.known = true;
  char text[1024];
  int pid = 0;
  long size = 0;
  while ((size = Raw(SYS_read, fd, text, sizeof(text))) > 0) {
    for (long i = 0; i < size; ++i) {
      if (text[i] >= '0' && text[i] <= '9') {
        pid = pid * 10 + (text[i] - '0');
      } else if (pid != 0) {
        Count(pid, task->board.program, &census);
        pid = 0;
      }
    }
  }
  Raw(SYS_close, fd);
  return census;
}

SANDBROKER_CHILD_CODE void AwaitSomeEnd() {
  const KernelSigset wanted = KernelSigset{1} << (SIGCHLD - 1);
  Raw(SYS_rt_sigtimedwait, &wanted, nullptr, nullptr, sizeof(wanted));
}

// Without a list: only reaping the program lets the others be seen.
[[noreturn]] SANDBROKER_CHILD_CODE void ReapToTheLast(SupervisorTask* task) {
  __atomic_store_n(&task->board.program_reaped, 1, __ATOMIC_SEQ_CST);
  Raw(SYS_wait4, task->board.program, nullptr, 0, nullptr);
  long pid = Raw(SYS_wait4, -1, nullptr, WNOHANG, nullptr);
  if (pid >= 0) Tell(task, SupervisorEvent::kOthersRemain, nullptr);
  while (pid != -ECHILD) pid = Raw(SYS_wait4, -1, nullptr, 0, nullptr);
  RawExit(0);
}

}  // namespace

SANDBROKER_CHILD_CODE int SuperviseProgram(void* argument) {
  SupervisorTask* task = static_cast<SupervisorTask*>(argument);
  Raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (Raw(SYS_getppid) != task->caller) RawExit(1);
  Raw(SYS_prctl, PR_SET_NAME, kName, 0, 0, 0);
  Raw(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  StartProgram(task);
  AwaitProgram(task);
  bool told_others = false, told_session = false;
  while (true) {
    const Census census = TakeCensus(task);
    if (!census.known) ReapToTheLast(task);
    if (census.reaped) continue;
    // Without children there are no further descendants either: the program is handed over.
    if (!census.others) RawExit(0);
    if (!told_others) Tell(task, SupervisorEvent::kOthersRemain, nullptr);
    told_others = true;
    if (!census.in_session && !told_session) {
      Tell(task, SupervisorEvent::kSessionGone, nullptr);
      told_session = true;
    }
    AwaitSomeEnd();
  }
}

}  // namespace sandbroker

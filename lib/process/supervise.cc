#include "lib/process/supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#include "lib/process/supervisor.h"

namespace sandbroker {
namespace {

constexpr size_t kRegionSize = 32 * 1024;
constexpr size_t kProgramStack = 16 * 1024;
constexpr size_t kKeptRegions = 64;
// Programs of the same user can stop a supervisor, and its child before exec.
constexpr int kNudgeMs = 20;
constexpr int kNudges = 500;
#ifdef SANDBROKER_SANITIZED
constexpr int kMapping = MAP_SHARED;
#else
constexpr int kMapping = MAP_PRIVATE;
#endif

pid_t CloneSupervisor(SupervisorTask* task, void* stack_top, int* pidfd) {
  const AllSignalsBlocked blocked;
  return ::clone(&SuperviseProgram, stack_top, SANDBROKER_CLONE_VM | CLONE_PIDFD | SIGCHLD, task,
                 pidfd);
}

bool Ready(const pollfd& poll) { return (poll.revents & (POLLIN | POLLHUP | POLLERR)) != 0; }

// Until the supervisor has spoken or is gone; answers which.
bool AwaitStart(const SupervisorTask& task, pid_t supervisor, int events, int pidfd,
                SupervisorEvent* event) {
  for (int nudge = 0;; ++nudge) {
    pollfd polls[] = {{events, POLLIN, 0}, {pidfd, POLLIN, 0}};
    ::poll(polls, 2, kNudgeMs);
    if (Ready(polls[0]) && ::read(events, event, sizeof(*event)) == sizeof(*event)) return true;
    if (Ready(polls[1])) return false;
    if (polls[0].revents != 0) continue;  // it is on its way out
    ::kill(supervisor, SIGCONT);
    if (task.board.program != 0) ::kill(task.board.program, SIGCONT);
    if (nudge >= kNudges) ::kill(supervisor, SIGKILL);
  }
}

// A child of ours that can only be on its way out; it may still have to be woken for that.
void AwaitGone(pid_t pid, int pidfd) {
  pollfd poll = {pidfd, POLLIN, 0};
  while (::poll(&poll, 1, kNudgeMs) != 1) ::kill(pid, SIGCONT);
}

void Reap(pid_t pid) {
  siginfo_t info = {};
  while (::waitid(P_PID, pid, &info, WEXITED) != 0 && errno == EINTR) {
  }
}

// The supervisor was killed before it could speak: its child is ours now. Whatever became of it,
// afterwards it touches no memory of ours. Answers whether it is there as a zombie.
bool EndHalfStarted(const SupervisorTask& task) {
  const pid_t program = task.board.program;
  if (program == 0) return false;
  if (task.board.failure.step == nullptr) ::kill(program, SIGKILL);
  siginfo_t info = {};
  while (::waitid(P_PID, program, &info, WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace

// The task stands at the beginning, then the supervisor's stack, then that of its child.
struct SupervisorPool::Region {
  SupervisorTask* task = nullptr;
  void* stack_top = nullptr;
};

struct SupervisorPool::Free {
  std::vector<void*> regions;
  ~Free() {
    for (void* region : regions) ::munmap(region, kRegionSize);
  }
  void* Take() {
    if (!regions.empty()) {
      void* const region = regions.back();
      regions.pop_back();
      return region;
    }
    void* const region =
        ::mmap(nullptr, kRegionSize, PROT_READ | PROT_WRITE, kMapping | MAP_ANONYMOUS, -1, 0);
    return region == MAP_FAILED ? nullptr : region;
  }
  void Return(void* region) {
    if (regions.size() < kKeptRegions) {
      regions.push_back(region);
    } else {
      ::munmap(region, kRegionSize);
    }
  }
};

SupervisorPool::SupervisorPool() : SupervisorPool("/proc/thread-self/children") {}

SupervisorPool::SupervisorPool(const char* children_list)
    : free_(std::make_shared<Free>()), children_list_(children_list) {}

std::shared_ptr<SupervisorPool::Region> SupervisorPool::Take() {
  void* const memory = free_->Take();
  if (memory == nullptr) return nullptr;
  char* const begin = static_cast<char*>(memory);
  auto region = std::make_unique<Region>();
  region->task = new (memory) SupervisorTask();
  region->task->children_list = children_list_;
  region->task->program_stack_top = begin + kRegionSize;
  region->stack_top = begin + kRegionSize - kProgramStack;
  return {region.release(), [free = free_, memory](Region* taken) {
            delete taken;
            free->Return(memory);
          }};
}

std::optional<SpawnError> Supervise(const SpawnSpec& spec, SupervisorPool* pool, Supervised* out) {
  if (spec.argv.empty()) return SpawnError{EINVAL, "exec"};
  const auto region = pool->Take();
  if (!region) return SpawnError{ENOMEM, "fork"};
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return SpawnError{errno, "pipe"};
  UniqueFd events(fds[0]), theirs(fds[1]);
  SupervisorTask* const task = region->task;
  PreparedProgram program(spec, &task->board.failure);
  task->plan = program.plan();
  task->events = theirs.get();
  task->caller = ::getpid();
  int raw_pidfd = -1;
  const pid_t supervisor = CloneSupervisor(task, region->stack_top, &raw_pidfd);
  if (supervisor < 0) return SpawnError{errno, "fork"};
  const UniqueFd pidfd(raw_pidfd);
  theirs.Reset();
  SupervisorEvent event;
  const bool spoke = AwaitStart(*task, supervisor, events.get(), pidfd.get(), &event);
  if (spoke && event.kind != SupervisorEvent::kStarted) AwaitGone(supervisor, pidfd.get());
  const bool there = spoke ? event.kind == SupervisorEvent::kStarted : EndHalfStarted(*task);
  if (task->board.failure.step != nullptr || !there) {
    if (there) Reap(task->board.program);
    Reap(supervisor);
    if (task->board.failure.step != nullptr) return task->board.failure;
    return SpawnError{ECANCELED, "supervisor"};
  }
  *out = {supervisor, task->board.program, std::move(events), region, &task->board};
  return std::nullopt;
}

}  // namespace sandbroker

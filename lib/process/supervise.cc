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

pid_t CloneSupervisor(SupervisorTask* task, void* stack_top) {
  const AllSignalsBlocked blocked;
  return ::clone(&SuperviseProgram, stack_top, SANDBROKER_CLONE_VM | SIGCHLD, task);
}

// Until the program's child has exec'ed or is gone, or was never made: then its end of `started` is
// closed, and after that it touches no memory of ours.
void AwaitStart(const SupervisorTask& task, pid_t supervisor, int started) {
  for (int nudge = 0;; ++nudge) {
    pollfd poll = {started, POLLIN, 0};
    if (::poll(&poll, 1, kNudgeMs) == 1) return;
    ::kill(supervisor, SIGCONT);
    // Its parent does not reap it, and it can't become ours while that lives.
    if (task.board.program != 0) ::kill(task.board.program, SIGCONT);
    if (nudge < kNudges) continue;
    if (task.board.program != 0) ::kill(task.board.program, SIGKILL);
    ::kill(supervisor, SIGKILL);
  }
}

void Reap(pid_t pid) {
  siginfo_t info = {};
  while (::waitid(P_PID, pid, &info, WEXITED) != 0 && errno == EINTR) {
  }
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
  int events[2], started[2];
  if (::pipe2(events, O_CLOEXEC | O_NONBLOCK) != 0) return SpawnError{errno, "pipe"};
  UniqueFd events_read(events[0]), events_write(events[1]);
  if (::pipe2(started, O_CLOEXEC) != 0) return SpawnError{errno, "pipe"};
  UniqueFd started_read(started[0]), started_write(started[1]);
  SupervisorTask* const task = region->task;
  PreparedProgram program(spec, &task->board.failure);
  program.plan()->keep_until_exec = started_write.get();
  task->plan = program.plan();
  task->events = events_write.get();
  task->caller = ::getpid();
  const pid_t supervisor = CloneSupervisor(task, region->stack_top);
  if (supervisor < 0) return SpawnError{errno, "fork"};
  events_write.Reset();
  started_write.Reset();
  AwaitStart(*task, supervisor, started_read.get());
  const pid_t child = task->board.program;
  if (task->board.failure.step != nullptr || child == 0) {
    // The child, if any, becomes ours by this.
    ::kill(supervisor, SIGKILL);
    Reap(supervisor);
    if (child != 0) Reap(child);
    if (task->board.failure.step != nullptr) return task->board.failure;
    return SpawnError{ECANCELED, "supervisor"};
  }
  *out = {supervisor, child, std::move(events_read), region, &task->board};
  return std::nullopt;
}

}  // namespace sandbroker

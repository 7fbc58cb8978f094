// What a child does between clone and exec to become the program of a SpawnSpec: everything is laid
// out beforehand, and the child makes raw system calls only. Shared by Spawn and Supervise.
#pragma once

#include <sys/types.h>

#include <utility>
#include <vector>

#include "lib/process/raw_syscall.h"
#include "lib/process/spawn.h"

namespace sandbroker {

// Everything the child needs; it allocates nothing.
struct ProgramPlan {
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* env = nullptr;
  const char* cwd = nullptr;           // nullptr = unchanged
  std::pair<int, int>* fds = nullptr;  // source, target
  size_t fd_count = 0;
  int first_free = 0;  // above every target
  const ResourceLimit* rlimits = nullptr;
  size_t rlimit_count = 0;
  const SpawnSpec* spec = nullptr;
  SpawnError* failure = nullptr;  // in memory that parent and child share
  int keep_until_exec = -1;       // close-on-exec; -1 = none
};

// Owns what the plan points to, besides the spec. Stays until the child has exec'ed or is gone.
class PreparedProgram {
 public:
  PreparedProgram(const SpawnSpec& spec, SpawnError* failure);
  PreparedProgram(const PreparedProgram&) = delete;
  PreparedProgram& operator=(const PreparedProgram&) = delete;
  ProgramPlan* plan() { return &plan_; }

 private:
  std::vector<char*> argv_;
  std::vector<char*> env_;
  std::vector<std::pair<int, int>> fds_;
  ProgramPlan plan_;
};

// In the child, with all signals blocked. Ends it with 127 after it noted a failure.
[[noreturn]] int BecomeProgram(void* plan);

// close_range, or one by one where the kernel has none.
void CloseFds(unsigned first, unsigned last);

// No handler of ours may run in a child whose memory is borrowed.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked();
  ~AllSignalsBlocked();
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  KernelSigset before_ = 0;
};

}  // namespace sandbroker

// What a supervisor does (supervise.h): raw system calls on borrowed memory, no libc state. It
// holds no descriptor but the one it tells its caller by, and blocks all signals.
#pragma once

#include <cstddef>

#include "lib/process/child_program.h"
#include "lib/process/supervise.h"

namespace sandbroker {

// Laid out at the beginning of a region; the stacks follow.
struct SupervisorTask {
  SupervisorBoard board;
  ProgramPlan* plan = nullptr;
  int events = -1;
  int caller = 0;  // our parent; another one means that it is gone
  const char* children_list = nullptr;
  void* program_stack_top = nullptr;
};

[[noreturn]] int SuperviseProgram(void* task);

}  // namespace sandbroker

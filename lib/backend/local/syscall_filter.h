// The tables of syscall_rules.h compiled by libseccomp into the program that bubblewrap gives the
// kernel right before it executes the agent. Only the architecture this was built for may make
// system calls at all: another one's (32-bit programs, x32) end the process with SIGSYS, because
// their numbers mean other calls. Compile once, use for every sandbox; any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sandbroker::local {

// An array of struct sock_filter as bytes, or why libseccomp could not make it.
absl::StatusOr<std::string> CompileSyscallFilter();

}  // namespace sandbroker::local

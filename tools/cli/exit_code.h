// Which exit code of the command line stands for which end, and what is said about it. Pure; the
// table is in docs/cli.md.
#pragma once

#include <string>

#include "sandbroker/v1/execution.pb.h"

namespace sandbroker::cli {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitLeaseExpired = 118;
inline constexpr int kExitSandboxGone = 119;
inline constexpr int kExitOutOfMemory = 120;
inline constexpr int kExitCancelled = 121;
inline constexpr int kExitAgentLost = 122;
inline constexpr int kExitOutcomeUnknown = 123;
inline constexpr int kExitTimedOut = 124;
// Ours failed, not the program: no server, a refused call, output that could not be written.
inline constexpr int kExitFailure = 125;
inline constexpr int kExitCannotStart = 126;
inline constexpr int kExitNotFound = 127;

// Code of a process that a signal ended, as shells write it.
inline int ExitCodeOfSignal(int number) { return 128 + number; }

struct Outcome {
  int exit_code = kExitFailure;
  // One line for stderr, without the program's name; empty when the code says it all.
  std::string message;
};

Outcome OutcomeOf(const v1::ExecEnded& ended);

}  // namespace sandbroker::cli

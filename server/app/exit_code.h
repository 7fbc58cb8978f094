// What the process says when it ends; documented in docs/operations.md, so append-only.
#pragma once

namespace sandbroker::app {

enum class ExitCode : int {
  kOk = 0,
  kBadConfig = 2,    // flags, environment or file
  kEnvironment = 3,  // no isolation, state directory locked or unusable, agent missing
  kCannotListen = 4,
  kForced = 5,  // a second signal, or the drain took too long
};

}  // namespace sandbroker::app

// Broken invariants end the process with a line that says where: a broker that has lost track
// of its own state must not go on answering. Expected failures are absl::Status instead.
#pragma once

namespace sandbroker {

[[noreturn]] void CheckFailed(const char* file, int line, const char* what);

}  // namespace sandbroker

#define SANDBROKER_CHECK(condition) \
  ((condition) ? void(0) : ::sandbroker::CheckFailed(__FILE__, __LINE__, #condition))

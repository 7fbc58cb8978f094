// Places where a test can end the process as kill -9 does: the broker's death is tried at every
// step by name, not by luck. SANDBROKER_FAIL_POINT=NAME[:NTH] in the environment arms one; the NTH
// time (1 unless given) it is passed, the process is gone. Built in where the CMake option
// SANDBROKER_FAIL_POINTS is on; nothing is left of them elsewhere. Any thread.
#pragma once

#ifdef SANDBROKER_FAIL_POINTS

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string_view>

namespace sandbroker::internal {

struct ArmedFailPoint {
  std::string_view name;
  std::atomic<int> left{1};

  ArmedFailPoint() {
    const char* text = std::getenv("SANDBROKER_FAIL_POINT");
    if (text == nullptr) return;
    name = text;
    const size_t colon = name.find(':');
    if (colon == std::string_view::npos) return;
    left = std::atoi(text + colon + 1);
    name = name.substr(0, colon);
  }
};

inline void PassFailPoint(std::string_view name) {
  static ArmedFailPoint armed;
  if (armed.name == name && --armed.left == 0) std::raise(SIGKILL);
}

}  // namespace sandbroker::internal

#define SANDBROKER_FAIL_POINT(name) ::sandbroker::internal::PassFailPoint(name)

#else

#define SANDBROKER_FAIL_POINT(name) \
  do {                              \
  } while (false)

#endif

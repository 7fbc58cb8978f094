// Numbers for jitter; nothing secret hangs on them. Loop thread only.
#pragma once

#include <random>

namespace sandbroker::kube {

// In [0, 1).
inline double Jitter() {
  static thread_local std::minstd_rand generator{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

}  // namespace sandbroker::kube

// Reads the count of OOM kills of the cgroup that programs run in, by the descriptor the agent was
// given. Agent thread only.
#pragma once

#include <cstdint>

namespace sandbroker::guest {

class OomCounter {
 public:
  // -1 = there is none; then nothing was ever killed for want of memory.
  void Use(int fd) { fd_ = fd; }
  uint64_t Read() const;

 private:
  int fd_ = -1;
};

}  // namespace sandbroker::guest

// Memory for the output of all executions of a sandbox. A start reserves what it must never lose;
// the rest is handed out while there is some. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sandbroker::guest {

class OutputBudget {
 public:
  explicit OutputBudget(uint64_t total) : total_(total) {}

  // All of it, or nothing and false.
  bool Reserve(uint64_t bytes) {
    if (bytes > available()) return false;
    used_ += bytes;
    return true;
  }
  // As much of it as there is.
  uint64_t Grant(uint64_t bytes) {
    const uint64_t granted = std::min(bytes, available());
    used_ += granted;
    return granted;
  }
  void GiveBack(uint64_t bytes) { used_ -= bytes; }

  uint64_t total() const { return total_; }
  uint64_t used() const { return used_; }
  uint64_t available() const { return total_ - used_; }

 private:
  const uint64_t total_;
  uint64_t used_ = 0;
};

}  // namespace sandbroker::guest

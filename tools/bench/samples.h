// Numbers of one measure, and what is read off them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace sandbroker::bench {

class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  size_t count() const { return values_.size(); }

  // The smallest value that at least `share` of all do not exceed; 0 without values.
  double Percentile(double share) const {
    if (values_.empty()) return 0;
    std::vector<double> sorted = values_;
    const auto at = std::min(static_cast<size_t>(share * static_cast<double>(sorted.size())),
                             sorted.size() - 1);
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at),
                     sorted.end());
    return sorted[at];
  }

 private:
  std::vector<double> values_;
};

// Microseconds since it was made.
class Stopwatch {
 public:
  double Micros() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Bytes in microseconds is MB/s.
inline double MegabytesPerSecond(double bytes, double micros) { return bytes / micros; }

}  // namespace sandbroker::bench

// Time as types. Decisions take `Time` arguments and never read a clock; shells read one through
// this interface, so that tests can hold a clock whose time moves only when they say so.
#pragma once

#include <chrono>

namespace sandbroker {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

// Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
  // For what outlives the process (leases, receipts) or is shown to people.
  virtual WallTime WallNow() const = 0;
};

inline constexpr Time kNever = Time::max();

// Saturates instead of overflowing, so that "now + a huge bound" is kNever.
inline Time SaturatingAdd(Time now, Duration bound) {
  return bound > kNever - now ? kNever : now + bound;
}

}  // namespace sandbroker

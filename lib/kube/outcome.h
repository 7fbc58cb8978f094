// What one exchange with the server means: done, refused, not sent or unknown; whether it is worth
// another try and after how long; how far the server's clock is from ours. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/kube/api.h"

namespace sandbroker::kube {

inline constexpr size_t kMaxJsonDepth = 64;
inline constexpr Duration kMaxRetryAfter = std::chrono::seconds(10);

// What came of one request over one connection.
struct Exchanged {
  // Every byte was handed over. A request that was not can't have had an effect: what writes has
  // a body, and its length stands before it.
  bool sent = false;
  bool any_answer = false;  // at least one byte of it
  bool whole = false;       // all of it: status, retry_after and body are there
  bool hostile = false;     // too large, or no HTTP: asking again brings the same
  int status = 0;
  std::string retry_after = {};
  std::string date = {};
  std::string body = {};
  std::string error = {};  // unless whole
};

// A write is one whose effect matters: 5xx says nothing about it, so it is unknown; of a read it
// is a refusal. An answer of 2xx that can't be understood is unknown for both.
Result ToResult(const Exchanged& exchanged, bool write);

// Seconds only; clamped to [0, kMaxRetryAfter]. Empty for anything else.
std::optional<Duration> ParseRetryAfter(std::string_view text);
// "Sun, 06 Nov 1994 08:49:37 GMT".
std::optional<WallTime> ParseHttpDate(std::string_view text);

// How a call goes on after a result.
class RetryPolicy {
 public:
  static constexpr Duration kFirstDelay = std::chrono::milliseconds(100);
  static constexpr Duration kMaxDelay = std::chrono::seconds(2);

  explicit RetryPolicy(bool write) : write_(write) {}
  // How long to wait before another try; empty: `result` is the call's. `hostile`: as exchanged.
  // `random` is in [0, 1). Nothing is begun that could not be within `left`.
  std::optional<Duration> Next(const Result& result, bool hostile, Duration left, double random);

 private:
  const bool write_;
  int tries_ = 0;
};

// The server's clock less ours. An answer's Date has whole seconds, so each one gives a range;
// the ranges of several answers are intersected, and widened again with time, as clocks drift.
class ClockOffset {
 public:
  // `before` and `after`: our clock when the request was sent and when its answer was in.
  void Add(WallTime date, WallTime before, WallTime after);
  std::optional<Duration> offset() const;

 private:
  bool known_ = false;
  Duration low_{};
  Duration high_{};
  WallTime added_{};
};

}  // namespace sandbroker::kube

// The caller's lease of one sandbox (docs/protocols.md C): until when it holds, how activity moves
// it ahead of time, and when the sandbox must be looked at or taken back. Pure: times come in.
#pragma once

#include <algorithm>
#include <optional>

#include "lib/base/clock.h"
#include "lib/broker/core/types.h"

namespace sandbroker::broker {

struct LeaseSettings {
  // Clocks may differ by this much: a lease is looked at this long after its end.
  Duration margin = std::chrono::seconds(5);
  // The backstop lies max(ttl, this) beyond the lease.
  Duration min_backstop = std::chrono::minutes(10);
};

// What was seen when a lease was looked at after its end.
enum class Look { kBusy, kIdle, kUnreachable };

class Lease {
 public:
  Lease(const LeaseSpec& spec, const LeaseSettings& settings, WallTime now)
      : spec_(spec), settings_(settings), acquired_(now), until_(now) {
    until_ = Ahead(now);
  }

  const LeaseSpec& spec() const { return spec_; }
  WallTime acquired() const { return acquired_; }
  // The lease's end as written.
  WallTime until() const { return until_; }
  // Nothing extends the sandbox beyond this.
  WallTime hard_end() const { return acquired_ + spec_.max_lifetime; }
  // When the sandbox ends itself if nobody comes.
  WallTime backstop() const {
    return std::min(until_ + std::max(spec_.ttl, settings_.min_backstop), hard_end());
  }
  Duration Remaining(WallTime now) const { return std::max(until_ - now, Duration(0)); }

  // Activity finds less than ttl left: the new end to be written, which never lies before the old
  // one. Nothing to write otherwise (at most one write a third of the ttl).
  std::optional<WallTime> Activity(WallTime now) const {
    if (until_ - now >= spec_.ttl) return std::nullopt;
    const WallTime ahead = Ahead(now);
    if (ahead <= until_) return std::nullopt;
    return ahead;
  }
  // The write succeeded.
  void Written(WallTime until) { until_ = std::max(until_, until); }

  bool Over(WallTime now) const { return now >= until_; }
  bool HardOver(WallTime now) const { return now >= hard_end(); }
  // When to look next.
  WallTime NextLook() const { return std::min(until_ + settings_.margin, hard_end()); }

  // When open streams are told that the end is near, after `now`: at a third and at a tenth of the
  // ttl before an end that nothing can move any more. WallTime::max() when none is left.
  WallTime NextWarning(WallTime now) const {
    for (const int part : {3, 10}) {
      const WallTime at = hard_end() - std::min(spec_.ttl, spec_.max_lifetime) / part;
      if (at > now) return at;
    }
    return WallTime::max();
  }

  enum class Verdict { kNotYet, kRenew, kWaitForBackstop, kTakeBack };
  // What to do at or after NextLook.
  Verdict Decide(WallTime now, Look look) const {
    if (HardOver(now)) return Verdict::kTakeBack;
    if (now < until_ + settings_.margin) return Verdict::kNotYet;
    switch (look) {
      case Look::kBusy:
        return Verdict::kRenew;
      case Look::kUnreachable:
        return now >= backstop() ? Verdict::kTakeBack : Verdict::kWaitForBackstop;
      case Look::kIdle:
        return Verdict::kTakeBack;
    }
    return Verdict::kNotYet;
  }

 private:
  WallTime Ahead(WallTime now) const { return std::min(now + spec_.ttl * 4 / 3, hard_end()); }

  LeaseSpec spec_;
  LeaseSettings settings_;
  WallTime acquired_;
  WallTime until_;
};

}  // namespace sandbroker::broker

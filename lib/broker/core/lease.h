// The caller's lease of one sandbox (docs/protocols.md C): until when it holds, how activity moves
// it ahead of time, what an outage of the broker does to it, and when the sandbox must be looked at
// or taken back. What it promises is what was written: a new end counts once Written is called.
// Pure: times come in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "lib/base/clock.h"
#include "lib/broker/core/types.h"

namespace sandbroker::broker {

struct LeaseSettings {
  // Clocks may differ by this much: a lease is looked at this long after its end.
  Duration margin = std::chrono::seconds(5);
  // The backstop lies max(ttl, this) beyond the lease.
  Duration min_backstop = std::chrono::minutes(10);
  // Other replicas look as well: open streams move the lease before any of them does.
  bool others_look = false;
};

// What was seen when a lease was looked at after its end.
enum class Look { kBusy, kIdle, kUnreachable };

// What an agent says of itself when it is looked at.
struct AgentSays {
  uint64_t running = 0;   // executions
  uint64_t attached = 0;  // streams of any broker
};

class Lease {
 public:
  Lease(const LeaseSpec& spec, const LeaseSettings& settings, WallTime now)
      : spec_(spec), settings_(settings), acquired_(now), until_(now) {
    until_ = Ahead(now);
  }

  // As an earlier broker wrote it down. `outage_ttl`: its end was given by AfterOutage.
  Lease(const LeaseSpec& spec, const LeaseSettings& settings, WallTime acquired, WallTime until,
        bool outage_ttl)
      : spec_(spec),
        settings_(settings),
        acquired_(acquired),
        until_(std::min(until, hard_end())),
        outage_ttl_(outage_ttl) {}

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
    if (until_ - now >= spec_.ttl && !outage_ttl_) return std::nullopt;
    const WallTime ahead = Ahead(now);
    // After an outage even the same end is written: the record must say that somebody came.
    if (outage_ttl_) return std::max(ahead, until_);
    if (ahead <= until_) return std::nullopt;
    return ahead;
  }
  // The write succeeded.
  void Written(WallTime until) {
    until_ = std::max(until_, until);
    outage_ttl_ = false;
  }

  // It ran out while no broker was there to renew it: one ttl from now, to be written with the
  // mark. Nothing if it holds, or if it was given before and nobody came since.
  std::optional<WallTime> AfterOutage(WallTime now) const {
    if (!Over(now) || HardOver(now) || outage_ttl_) return std::nullopt;
    return std::min(now + spec_.ttl, hard_end());
  }
  void WrittenAfterOutage(WallTime until) {
    until_ = std::max(until_, until);
    outage_ttl_ = true;
  }
  bool outage_ttl() const { return outage_ttl_; }
  // Another replica has written this end and mark; an older end than the known one is passed over.
  void TakeOver(WallTime until, bool outage_ttl) {
    if (until < until_) return;
    // For the same end nobody gives the mark back: it was cleared since.
    outage_ttl_ = outage_ttl && (until > until_ || outage_ttl_);
    until_ = std::min(until, hard_end());
  }

  bool Over(WallTime now) const { return now >= until_; }
  bool HardOver(WallTime now) const { return now >= hard_end(); }
  // When to look next.
  WallTime NextLook() const { return std::min(until_ + settings_.margin, hard_end()); }

  // When to wake for it next: where others look as well, two thirds of the ttl ahead of its end, so
  // that the write of one with open streams is long done when they do; then at the look.
  WallTime NextWake(WallTime now) const {
    const WallTime ahead = until_ - spec_.ttl * 2 / 3;
    return settings_.others_look && now < ahead ? ahead : NextLook();
  }

  // It is the first of the two, or between them.
  bool KeepsAhead(WallTime now) const { return settings_.others_look && now < NextLook(); }

  // When open streams are told that the end is near, after `now`: at a third and at a tenth of the
  // ttl before an end that nothing can move any more. WallTime::max() when none is left.
  WallTime NextWarning(WallTime now) const {
    for (const int part : {3, 10}) {
      const WallTime at = hard_end() - std::min(spec_.ttl, spec_.max_lifetime) / part;
      if (at > now) return at;
    }
    return WallTime::max();
  }

  // A sandbox that can't live this much longer, whatever its caller does, is not handed out.
  bool Leaves(Duration least, WallTime now) const { return hard_end() - now >= least; }

  // An open stream, of this broker or another, is activity; a program that nobody is attached to
  // is it only when the caller wished so. `agent` empty: it could not be asked.
  Look See(bool open_streams, const std::optional<AgentSays>& agent) const {
    if (open_streams) return Look::kBusy;
    if (!agent) return Look::kUnreachable;
    const bool running = spec_.keep_while_running && agent->running > 0;
    return running || agent->attached > 0 ? Look::kBusy : Look::kIdle;
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
  bool outage_ttl_ = false;
};

}  // namespace sandbroker::broker

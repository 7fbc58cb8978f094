// Who waits for a sandbox of one pool, and how many to start for them: first come first served,
// bounded, each waiter with a deadline of its own. It holds no sandbox; the backend's pool tells it
// what happened and does what it answers. Pure; its pool's thread.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/broker/core/types.h"

namespace sandbroker::broker {

struct PoolLimits {
  uint32_t warm = 2;
  uint32_t limit = 64;
  uint32_t max_waiting = 1024;
  uint32_t max_starting = 4;
};

// Counts of one pool's sandboxes, in any state the limit covers.
struct PoolCounts {
  uint32_t ready = 0;
  uint32_t starting = 0;
  uint32_t claimed = 0;  // held by callers or being destroyed
  uint32_t total() const { return ready + starting + claimed; }
};

class AcquireQueue {
 public:
  using Ticket = uint64_t;
  explicit AcquireQueue(const PoolLimits& limits) : limits_(limits) {}

  enum class Admission { kTake, kQueued, kDry, kFull };
  // A caller arrives. kTake: hand it a ready sandbox now. kQueued: `ticket` is its place. kDry: its
  // fallback does not allow waiting. kFull: too many wait.
  Admission Arrive(Fallback fallback, Time deadline, const PoolCounts& counts, Ticket* ticket);
  // A sandbox is ready: whose is it? Nobody's = it joins the warm ones.
  std::optional<Ticket> OnReady();
  // There is room to start one for a caller who accepts a cold start: whose is it?
  std::optional<Ticket> OnRoom();
  // The caller went away. False: it was not waiting any more.
  bool Leave(Ticket ticket);
  // Waiters whose deadline has passed, removed.
  std::vector<Ticket> Expire(Time now);
  Time NextDeadline() const;
  // All waiters, removed (drain).
  std::vector<Ticket> Clear();
  // How many to start now: the warm reserve plus those who asked for a cold start, within limits.
  uint32_t ToStart(const PoolCounts& counts) const;

  uint32_t waiting() const { return static_cast<uint32_t>(waiters_.size()); }

 private:
  struct Waiter {
    Ticket ticket;
    Fallback fallback;
    Time deadline;
  };
  PoolLimits limits_;
  std::list<Waiter> waiters_;
  Ticket next_ = 1;
};

}  // namespace sandbroker::broker

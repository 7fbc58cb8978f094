#include "lib/broker/core/acquire_queue.h"

#include <algorithm>

namespace sandbroker::broker {

AcquireQueue::Admission AcquireQueue::Arrive(Fallback fallback, Time deadline,
                                             const PoolCounts& counts, Ticket* ticket) {
  // Whoever waits already comes before a newcomer, even when one is ready this very moment.
  if (waiters_.empty() && counts.ready > 0) return Admission::kTake;
  if (fallback == Fallback::kWarmOnly) return Admission::kDry;
  if (waiters_.size() >= limits_.max_waiting) return Admission::kFull;
  *ticket = next_++;
  waiters_.push_back({*ticket, fallback, deadline});
  return Admission::kQueued;
}

std::optional<AcquireQueue::Ticket> AcquireQueue::OnReady() {
  if (waiters_.empty()) return std::nullopt;
  const Ticket ticket = waiters_.front().ticket;
  waiters_.pop_front();
  return ticket;
}

std::optional<AcquireQueue::Ticket> AcquireQueue::OnRoom() {
  const auto it = std::find_if(waiters_.begin(), waiters_.end(), [](const Waiter& waiter) {
    return waiter.fallback == Fallback::kColdOk;
  });
  if (it == waiters_.end()) return std::nullopt;
  const Ticket ticket = it->ticket;
  waiters_.erase(it);
  return ticket;
}

bool AcquireQueue::Leave(Ticket ticket) {
  const auto it = std::find_if(waiters_.begin(), waiters_.end(),
                               [&](const Waiter& w) { return w.ticket == ticket; });
  if (it == waiters_.end()) return false;
  waiters_.erase(it);
  return true;
}

std::vector<AcquireQueue::Ticket> AcquireQueue::Expire(Time now) {
  std::vector<Ticket> expired;
  waiters_.remove_if([&](const Waiter& waiter) {
    if (waiter.deadline > now) return false;
    expired.push_back(waiter.ticket);
    return true;
  });
  return expired;
}

Time AcquireQueue::NextDeadline() const {
  Time next = kNever;
  for (const Waiter& waiter : waiters_) next = std::min(next, waiter.deadline);
  return next;
}

std::vector<AcquireQueue::Ticket> AcquireQueue::Clear() {
  std::vector<Ticket> all;
  for (const Waiter& waiter : waiters_) all.push_back(waiter.ticket);
  waiters_.clear();
  return all;
}

uint32_t AcquireQueue::ToStart(const PoolCounts& counts) const {
  const auto cold = static_cast<uint32_t>(
      std::count_if(waiters_.begin(), waiters_.end(),
                    [](const Waiter& waiter) { return waiter.fallback == Fallback::kColdOk; }));
  // Waiters of either kind are served by what is being started for the warm reserve; only callers
  // who accept a cold start add to it, so a crowd that merely waits does not start a stampede.
  // A pool that keeps none warm still starts one at a time for those who only wait.
  const uint32_t kept = limits_.warm == 0 && cold == 0 && !waiters_.empty() ? 1 : limits_.warm;
  const uint32_t wanted = kept + cold;
  const uint32_t have = counts.ready + counts.starting;
  uint32_t count = wanted > have ? wanted - have : 0;
  count = std::min(count, limits_.limit > counts.total() ? limits_.limit - counts.total() : 0);
  const uint32_t room =
      limits_.max_starting > counts.starting ? limits_.max_starting - counts.starting : 0;
  return std::min(count, room);
}

}  // namespace sandbroker::broker

#include "lib/backend/kubernetes/pool_gate.h"

#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::kubernetes {
namespace {

using broker::AcquireQueue;
using broker::Fallback;

absl::Status Draining() {
  return MakeError(Reason::kServerDraining, "this server is going away; try another");
}

}  // namespace

PoolGate::PoolGate(Scheduler& scheduler, const ClusterCache& cache, PoolSettings settings)
    : scheduler_(scheduler),
      cache_(cache),
      settings_(std::move(settings)),
      queue_({0, settings_.limit, settings_.max_waiting, settings_.limit}) {}

// `ready` are those that nobody is about to take.
broker::PoolCounts PoolGate::Counts() const {
  const ClusterCache::Members members = cache_.MembersOf(settings_.warm_pool);
  broker::PoolCounts counts;
  counts.starting = members.unbound + entered_;
  counts.ready = members.ready > counts.starting ? members.ready - counts.starting : 0;
  counts.claimed = members.bound;
  return counts;
}

absl::Status PoolGate::Dry() const {
  const broker::PoolCounts counts = Counts();
  ErrorDetail detail;
  detail.reason = Reason::kPoolExhausted;
  detail.metadata = {{"pool", settings_.name},
                     {"limit", std::to_string(settings_.limit)},
                     {"claimed", std::to_string(counts.claimed + counts.starting)}};
  return MakeError(std::move(detail),
                   StrCat("pool '", settings_.name, "' had no ready sandbox in time: ",
                          counts.claimed + counts.starting, " of at most ", settings_.limit,
                          " are claimed, ", queue_.waiting(), " callers wait"));
}

Task<absl::Status> PoolGate::Enter(Fallback fallback, Time deadline, CancelToken cancel) {
  if (draining_) co_return Draining();
  if (cancel.cancelled()) co_return MakeError(Reason::kCancelled, "the caller went away");
  if (cache_.Pool(settings_.warm_pool) == nullptr && fallback != Fallback::kColdOk) {
    // It will never have a member, and the controller would only say the same.
    co_return MakeError(Reason::kClaimRejected,
                        StrCat("pool '", settings_.name, "' has no SandboxWarmPool '",
                               settings_.warm_pool, "' on the cluster"));
  }
  Ticket ticket = 0;
  broker::PoolCounts counts = Counts();
  if (Full(counts)) counts.ready = 0;
  switch (queue_.Arrive(fallback, deadline, counts, &ticket)) {
    case AcquireQueue::Admission::kTake:
      ++entered_;
      co_return absl::OkStatus();
    case AcquireQueue::Admission::kDry:
    case AcquireQueue::Admission::kFull:
      co_return Dry();
    case AcquireQueue::Admission::kQueued:
      break;
  }
  const OneShot<absl::Status> admitted;
  waiters_.emplace(ticket, admitted);
  Pump();
  cancel.OnCancel([this, ticket] {
    if (queue_.Leave(ticket)) End(ticket, MakeError(Reason::kCancelled, "the caller went away"));
  });
  const absl::Status status = co_await admitted.Wait();
  cancel.OnCancel(nullptr);
  co_return status;
}

void PoolGate::Seen() {
  --entered_;
  Pump();
}

std::optional<PoolGate::Ticket> PoolGate::NextAdmitted() {
  const broker::PoolCounts counts = Counts();
  if (queue_.waiting() == 0 || Full(counts)) return std::nullopt;
  if (counts.ready > 0) return queue_.OnReady();
  if (const auto cold = queue_.OnRoom()) return cold;
  // A pool that keeps none warm starts one at a time for those who only wait.
  const PoolView* pool = cache_.Pool(settings_.warm_pool);
  const bool keeps_none = pool != nullptr && pool->wanted == 0;
  return keeps_none && counts.starting == 0 ? queue_.OnReady() : std::nullopt;
}

void PoolGate::Pump() {
  while (const auto ticket = NextAdmitted()) Grant(*ticket);
  ArmExpiry();
}

void PoolGate::Grant(Ticket ticket) {
  ++entered_;
  End(ticket, absl::OkStatus());
}

void PoolGate::End(Ticket ticket, absl::Status status) {
  const auto waiter = waiters_.extract(ticket);
  if (waiter.empty()) return;
  // Not on the spot: who goes on may come back here.
  scheduler_.Post([waiting = waiter.mapped(), status = std::move(status)] { waiting.Set(status); });
}

void PoolGate::ArmExpiry() {
  const Time next = queue_.NextDeadline();
  if (next == kNever) {
    expiry_timer_.reset();
    return;
  }
  expiry_timer_ = scheduler_.After(std::max(next - scheduler_.Now(), Duration(0)), [this] {
    for (const Ticket ticket : queue_.Expire(scheduler_.Now())) End(ticket, Dry());
    ArmExpiry();
  });
}

void PoolGate::Drain() {
  draining_ = true;
  for (const Ticket ticket : queue_.Clear()) End(ticket, Draining());
  expiry_timer_.reset();
}

broker::PoolCapacity PoolGate::Capacity() const {
  const ClusterCache::Members members = cache_.MembersOf(settings_.warm_pool);
  const PoolView* pool = cache_.Pool(settings_.warm_pool);
  broker::PoolCapacity capacity;
  capacity.pool = settings_.name;
  capacity.wanted =
      pool == nullptr ? 0 : static_cast<uint32_t>(std::clamp<int64_t>(pool->wanted, 0, UINT32_MAX));
  capacity.ready = Counts().ready;
  capacity.pending = members.pending + members.unbound + entered_;
  capacity.claimed = members.bound;
  capacity.waiting_callers = queue_.waiting();
  capacity.limit = settings_.limit;
  if (pool == nullptr) {
    capacity.last_error = StrCat("no SandboxWarmPool '", settings_.warm_pool, "' on the cluster");
  }
  return capacity;
}

}  // namespace sandbroker::kubernetes

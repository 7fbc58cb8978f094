// Acquire: with a receipt (once for ever) or without. The steps are those of docs/protocols.md B.
#include <algorithm>
#include <utility>

#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/broker.h"
#include "lib/broker/sandbox.h"

namespace sandbroker::broker {
namespace {

absl::Status Draining() {
  return MakeError(Reason::kServerDraining, "this server is going away; try another");
}

absl::Status CallerLeft() {
  return MakeError(Reason::kCancelled, "the caller went away before a sandbox was bound");
}

}  // namespace

Task<absl::StatusOr<Acquired>> Broker::Acquire(Principal who, AcquireSpec spec,
                                               CancelToken cancel) {
  if (draining_) co_return Draining();
  const Time begin = scheduler_.Now();
  // Not `?:` over two co_await: GCC 12 destroys the temporaries of such an expression twice.
  Task<absl::StatusOr<Acquired>> task =
      spec.request_id.empty() ? AcquireNew(who, spec, cancel) : AcquireOnce(who, spec, cancel);
  absl::StatusOr<Acquired> result = co_await std::move(task);
  if (result.ok()) result->timing.total = scheduler_.Now() - begin;
  CountAcquire(spec, result);
  co_return result;
}

void Broker::CountAcquire(const AcquireSpec& spec, const absl::StatusOr<Acquired>& result) {
  if (!result.ok()) {
    // An unknown pool's name comes from the caller: it must not become a label.
    const Reason reason = ReasonOf(result.status());
    metrics_.CountAcquire(reason == Reason::kPoolNotFound ? "" : spec.pool,
                          std::string(ReasonName(reason)));
    return;
  }
  const std::string source = result->source == Source::kWarm   ? "warm"
                             : result->source == Source::kCold ? "cold"
                                                               : "repeated";
  metrics_.CountAcquire(spec.pool, source);
  metrics_.ObserveAcquire(source, std::chrono::duration<double>(result->timing.total).count());
}

Task<absl::StatusOr<Acquired>> Broker::AcquireNew(Principal who, AcquireSpec spec,
                                                  CancelToken cancel) {
  absl::StatusOr<Binding> binding = co_await backend_.Acquire(spec, cancel);
  if (!binding.ok()) co_return binding.status();
  const Time bound_from = scheduler_.Now();
  const std::string uid = binding->uid;
  auto sandbox = std::make_unique<Sandbox>(
      scheduler_, metrics_, Sandbox::Identity{uid, who.tenant, spec.pool, spec.labels}, spec.lease,
      settings_.lease, binding->link, [this, uid] { OnLeaseOver(uid); });
  sandboxes_.emplace(uid, std::move(sandbox));
  if (!spec.env.empty()) {
    const absl::Status status = co_await BindEnvironment(binding->link, spec.env);
    if (!status.ok()) {
      const std::string cause = "start_failed";
      co_await Destroy(uid, Reason::kSandboxGone, cause);
      co_return MakeError(Reason::kAgentUnreachable,
                          StrCat("env could not be bound: ", MessageOf(status)));
    }
  }
  // Nobody was told of it yet, so it can be taken back without breaking a promise.
  if (cancel.cancelled()) {
    const std::string cause = "caller_left";
    co_await Destroy(uid, Reason::kSandboxGone, cause);
    co_return CallerLeft();
  }
  const auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) {
    co_return MakeError(Reason::kAgentUnreachable, "the sandbox ended while it was handed out");
  }
  Acquired acquired{View(*it->second), binding->source, {}};
  acquired.timing.queued = binding->queued;
  acquired.timing.started = binding->started;
  acquired.timing.bound = scheduler_.Now() - bound_from;
  co_return acquired;
}

Task<absl::Status> Broker::BindEnvironment(std::shared_ptr<AgentLink> link,
                                           std::vector<EnvVar> env) {
  agent::Bind bind;
  for (const EnvVar& var : env) {
    agent::EnvVar* to = bind.add_env();
    to->set_name(var.name);
    to->set_value(var.value);
  }
  OneShot<absl::Status> answer;
  link->Bind(bind, [answer](absl::Status status) { answer.Set(std::move(status)); });
  co_return co_await answer.Wait();
}

Task<absl::StatusOr<Acquired>> Broker::AcquireOnce(Principal who, AcquireSpec spec,
                                                   CancelToken cancel) {
  const std::string key = ReceiptKey(who, spec.request_id);
  const std::string hash = RequestHash(spec);
  const Time give_up = SaturatingAdd(scheduler_.Now(), spec.wait_bound + std::chrono::seconds(5));
  while (true) {
    const auto found = co_await receipts_.Read(key);
    if (!found.ok()) co_return found.status();
    const WallTime now = scheduler_.WallNow();
    const bool dead = *found && receipts_.OwnerIsDead((*found)->owner);
    Receipt mine{Receipt::State::kPending,
                 hash,
                 NewId(),
                 settings_.replica_id,
                 now + spec.wait_bound + std::chrono::minutes(2),
                 ""};
    absl::StatusOr<bool> won = false;
    switch (Meet(*found, hash, now, dead)) {
      case Meeting::kReused:
        co_return MakeError(Reason::kRequestIdReused,
                            "request_id was used before with another request");
      case Meeting::kGone:
        co_return MakeError(Reason::kSandboxGone, "the sandbox of this request_id is gone");
      case Meeting::kRepeat:
        co_return Repeated(who, (*found)->uid);
      case Meeting::kWait: {
        const bool woken = co_await WaitForReceipt(key, give_up, cancel);
        if (woken) continue;
        co_return cancel.cancelled()
            ? CallerLeft()
            : MakeError(Reason::kNotReady, "another call with this request_id is still at it");
      }
      case Meeting::kCreate:
        won = co_await receipts_.Create(key, mine);
        break;
      case Meeting::kTake:
        won = co_await receipts_.CompareAndSet(key, (*found)->token, mine);
        break;
    }
    if (!won.ok()) co_return won.status();
    if (*won) {
      absl::StatusOr<Acquired> result = co_await BindReceipt(who, spec, key, mine, cancel);
      co_return result;
    }
    if (scheduler_.Now() >= give_up) {
      co_return MakeError(Reason::kNotReady, "the receipt of this request_id keeps changing");
    }
  }
}

// The receipt is ours and pending: get a sandbox and write it down, or open the receipt again.
Task<absl::StatusOr<Acquired>> Broker::BindReceipt(Principal who, AcquireSpec spec, std::string key,
                                                   Receipt mine, CancelToken cancel) {
  absl::StatusOr<Acquired> acquired = co_await AcquireNew(who, spec, cancel);
  Receipt next = mine;
  next.token = NewId();
  if (!acquired.ok()) {
    next.state = Receipt::State::kOpen;
    const auto opened = co_await receipts_.CompareAndSet(key, mine.token, next);
    WakeReceipt(key);
    if (!opened.ok()) co_return opened.status();
    co_return acquired.status();
  }
  const auto handle = DecodeHandle(acquired->sandbox.handle, settings_.handle_key);
  const std::string uid = handle.ok() ? handle->uid : "";
  next.state = Receipt::State::kBound;
  next.uid = uid;
  const auto bound = co_await receipts_.CompareAndSet(key, mine.token, next);
  WakeReceipt(key);
  if (bound.ok() && *bound) co_return acquired;
  // Refused or unknown: only what the record says now counts.
  const std::string cause = "receipt_lost";
  const auto now = co_await receipts_.Read(key);
  if (now.ok() && *now && (*now)->state == Receipt::State::kBound) {
    if ((*now)->uid == uid) co_return acquired;
    co_await Destroy(uid, Reason::kSandboxGone, cause);
    co_return Repeated(who, (*now)->uid);
  }
  // Unbound or unreadable: the sandbox is not named by any record, so nobody can come for it.
  co_await Destroy(uid, Reason::kSandboxGone, cause);
  co_return MakeError(Reason::kNotReady, "the receipt could not be written; repeat the request");
}

absl::StatusOr<Acquired> Broker::Repeated(const Principal& who, const std::string& uid) {
  const auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end() || it->second->identity().tenant != who.tenant ||
      it->second->state() == SandboxState::kReleasing) {
    return MakeError(Reason::kSandboxGone, "the sandbox of this request_id is gone");
  }
  it->second->Touch();
  return Acquired{View(*it->second), Source::kRepeated, {}};
}

Task<bool> Broker::WaitForReceipt(std::string key, Time deadline, CancelToken cancel) {
  if (scheduler_.Now() >= deadline || cancel.cancelled()) co_return false;
  OneShot<bool> woken;
  receipt_waiters_[key].push_back(woken);
  // Also wakes when a record of another replica may have passed its deadline.
  const Duration nap = std::min<Duration>(deadline - scheduler_.Now(), std::chrono::seconds(1));
  const auto timer = scheduler_.After(nap, [woken] { woken.Set(true); });
  cancel.OnCancel([woken] { woken.Set(false); });
  const bool go_on = co_await woken.Wait();
  cancel.OnCancel(nullptr);
  auto& waiters = receipt_waiters_[key];
  waiters.erase(std::remove_if(waiters.begin(), waiters.end(),
                               [](const OneShot<bool>& waiter) { return waiter.done(); }),
                waiters.end());
  if (waiters.empty()) receipt_waiters_.erase(key);
  co_return go_on&& scheduler_.Now() < deadline;
}

void Broker::WakeReceipt(const std::string& key) {
  const auto it = receipt_waiters_.find(key);
  if (it == receipt_waiters_.end()) return;
  const auto waiters = it->second;
  for (const OneShot<bool>& waiter : waiters) waiter.Set(true);
}

}  // namespace sandbroker::broker

// Acquire with a receipt: once for ever, also across the broker's death. The steps are those of
// docs/protocols.md B. And the sweep of receipts that nobody can ask for any more.
#include <algorithm>
#include <utility>

#include "lib/base/fail_point.h"
#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/broker.h"
#include "lib/broker/sandbox.h"
#include "lib/obs/log.h"

namespace sandbroker::broker {
namespace {

absl::Status CallerLeft() {
  return MakeError(Reason::kCancelled, "the caller went away before a sandbox was bound");
}

absl::Status ReceiptGone() {
  return MakeError(Reason::kSandboxGone, "the sandbox of this request_id is gone");
}

}  // namespace

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
      case Meeting::kRepeat: {
        absl::StatusOr<Acquired> repeated = co_await Repeated(who, (*found)->uid);
        co_return repeated;
      }
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
      SANDBROKER_FAIL_POINT("acquire.receipt_created");
      absl::StatusOr<Acquired> result =
          co_await BindReceipt(who, spec, key, mine, found->has_value(), cancel);
      co_return result;
    }
    if (scheduler_.Now() >= give_up) {
      co_return MakeError(Reason::kNotReady, "the receipt of this request_id keeps changing");
    }
  }
}

// The receipt is ours and pending: get a sandbox and write it down, or open the receipt again.
Task<absl::StatusOr<Acquired>> Broker::BindReceipt(Principal who, AcquireSpec spec, std::string key,
                                                   Receipt mine, bool taken_over,
                                                   CancelToken cancel) {
  // Of a receipt that had an owner before: what that one claimed is used, not left to its lease.
  std::string left;
  if (taken_over) left = FindByReceipt(who, key);
  Task<absl::StatusOr<Acquired>> task =
      left.empty() ? AcquireNew(who, spec, ReceiptMark{key, mine.token}, cancel)
                   : TakeOver(left, spec, mine.token, cancel);
  absl::StatusOr<Acquired> acquired = co_await std::move(task);
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
  next.state = Receipt::State::kBound;
  next.uid = handle.ok() ? handle->uid : "";
  SANDBROKER_FAIL_POINT("acquire.before_bind");
  const auto bound = co_await receipts_.CompareAndSet(key, mine.token, next);
  SANDBROKER_FAIL_POINT("acquire.bound");
  WakeReceipt(key);
  if (bound.ok() && *bound) co_return acquired;
  absl::StatusOr<Acquired> outcome =
      co_await ReceiptLost(who, key, next.uid, mine.token, *acquired);
  co_return outcome;
}

// Refused or unknown: only what the record says now counts.
Task<absl::StatusOr<Acquired>> Broker::ReceiptLost(Principal who, std::string key, std::string uid,
                                                   std::string token, Acquired acquired) {
  const auto now = co_await receipts_.Read(key);
  const bool bound = now.ok() && *now && (*now)->state == Receipt::State::kBound;
  if (bound && (*now)->uid == uid) co_return acquired;
  // Named by no record, or by another's: one's own is taken back. One that another try has
  // re-stamped meanwhile is not one's own.
  const auto it = sandboxes_.find(uid);
  if (it != sandboxes_.end() && it->second->identity().token == token) {
    const std::string cause = "receipt_lost";
    co_await Destroy(uid, Reason::kSandboxGone, cause);
  }
  if (bound) {
    absl::StatusOr<Acquired> repeated = co_await Repeated(who, (*now)->uid);
    co_return repeated;
  }
  co_return MakeError(Reason::kNotReady, "the receipt could not be written; repeat the request");
}

std::string Broker::FindByReceipt(const Principal& who, const std::string& key) const {
  for (const auto& [uid, sandbox] : sandboxes_) {
    if (sandbox->identity().receipt != key || sandbox->identity().tenant != who.tenant) continue;
    const SandboxState state = sandbox->state();
    if (state == SandboxState::kReady || state == SandboxState::kUnreachable) return uid;
  }
  return "";
}

// What a try whose broker died has claimed becomes this try's. Its env may not have been bound yet;
// doing it again is harmless, since the request is the same.
Task<absl::StatusOr<Acquired>> Broker::TakeOver(std::string uid, AcquireSpec spec,
                                                std::string token, CancelToken cancel) {
  const std::string cause = "start_failed";
  const Time from = scheduler_.Now();
  Sandbox& sandbox = *sandboxes_.at(uid);
  absl::Status status = co_await sandbox.Restamp(token);
  auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end() || it->second->link() == nullptr) {
    co_return MakeError(Reason::kAgentUnreachable, "its sandbox does not answer; repeat it");
  }
  const std::shared_ptr<AgentLink> link = it->second->shared_link();
  if (status.ok() && !spec.env.empty()) status = co_await BindEnvironment(link, spec.env);
  if (status.ok() && cancel.cancelled()) status = CallerLeft();
  if (!status.ok()) {
    co_await Destroy(uid, Reason::kSandboxGone, cause);
    co_return status;
  }
  it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) co_return ReceiptGone();
  status = co_await it->second->Renew();
  it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) co_return ReceiptGone();
  Acquired acquired{View(*it->second), Source::kAdopted, {}};
  acquired.timing.bound = scheduler_.Now() - from;
  co_return acquired;
}

// The answer counts as activity, and is given once that is written.
Task<absl::StatusOr<Acquired>> Broker::Repeated(Principal who, std::string uid) {
  auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end() || it->second->identity().tenant != who.tenant ||
      it->second->state() == SandboxState::kReleasing) {
    co_return ReceiptGone();
  }
  const absl::Status written = co_await it->second->Renew();
  it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) co_return ReceiptGone();
  if (!written.ok()) co_return written;
  co_return Acquired{View(*it->second), Source::kRepeated, {}};
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

void Broker::StartSweeping() {
  if (draining_) return;
  scope_.Spawn("sweep receipts", SweepReceipts());
}

Task<void> Broker::SweepReceipts() {
  const auto keys = co_await receipts_.List();
  if (!keys.ok()) {
    obs::Log(obs::Level::kError, "the receipts can't be listed",
             {{"why", MessageOf(keys.status())}});
  } else {
    for (const std::string& key : *keys) {
      if (draining_) co_return;
      const absl::Status status = co_await SweepReceipt(key);
      if (status.ok()) continue;
      obs::Log(obs::Level::kWarning, "a receipt can't be swept",
               {{"receipt", key}, {"why", MessageOf(status)}});
    }
  }
  if (draining_) co_return;
  const Duration pause = std::clamp<Duration>(settings_.receipt_retention / 24,
                                              std::chrono::seconds(1), std::chrono::hours(1));
  sweep_timer_ = scheduler_.After(pause, [this] { StartSweeping(); });
}

Task<absl::Status> Broker::SweepReceipt(std::string key) {
  const auto found = co_await receipts_.Read(key);
  if (!found.ok() || !*found) co_return found.status();
  Receipt receipt = **found;
  const std::string token = receipt.token;
  const bool alive = sandboxes_.count(receipt.uid) != 0;
  absl::StatusOr<bool> done = true;
  switch (DecideSweep(receipt, alive, scheduler_.WallNow(), settings_.receipt_retention)) {
    case Sweep::kKeep:
      break;
    case Sweep::kEnd:
      receipt.state = Receipt::State::kEnded;
      receipt.token = NewId();
      receipt.deadline = scheduler_.WallNow();
      done = co_await receipts_.CompareAndSet(key, token, receipt);
      break;
    case Sweep::kRemove:
      done = co_await receipts_.Remove(key, token);
      break;
  }
  co_return done.status();
}

}  // namespace sandbroker::broker

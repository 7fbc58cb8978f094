// Acquire with a receipt: once for ever, also across the broker's death. The steps are those of
// docs/protocols.md B, and lib/broker/core/acquire_once.h names them.
#include <algorithm>
#include <utility>

#include "lib/base/fail_point.h"
#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/broker.h"
#include "lib/broker/core/acquire_once.h"
#include "lib/broker/sandbox.h"

namespace sandbroker::broker {
namespace {

absl::Status ReceiptGone() {
  return MakeError(Reason::kSandboxGone, "the sandbox of this request_id is gone");
}

}  // namespace

// One call, as the machine walks it. Lives in the coroutine's frame.
struct Broker::ReceiptCall {
  Principal who;
  AcquireSpec spec;
  CancelToken cancel;
  std::string key;
  Time give_up;
  AcquireOnce machine;
  absl::StatusOr<Acquired> acquired = absl::UnknownError("nothing was acquired");
  absl::Status store_error = {};
};

Task<absl::StatusOr<Acquired>> Broker::AcquireWithReceipt(Principal who, AcquireSpec spec,
                                                          CancelToken cancel) {
  AcquireOnce machine(RequestHash(spec), settings_.replica_id,
                      spec.wait_bound + std::chrono::minutes(2));
  const Time give_up = SaturatingAdd(scheduler_.Now(), spec.wait_bound + std::chrono::seconds(5));
  std::string key = ReceiptKey(who, spec.request_id);
  ReceiptCall call{std::move(who), std::move(spec), std::move(cancel),
                   std::move(key), give_up,         std::move(machine)};
  while (true) {
    switch (call.machine.step()) {
      case AcquireOnce::Step::kRead:
        if (call.machine.meeting() && scheduler_.Now() >= call.give_up) {
          co_return MakeError(Reason::kNotReady, "the receipt of this request_id keeps changing");
        }
        co_await ReadReceipt(&call);
        break;
      case AcquireOnce::Step::kWait: {
        const bool woken = co_await WaitForReceipt(call.key, call.give_up, call.cancel);
        if (call.cancel.cancelled()) co_return CallerLeft();
        if (!woken) {
          co_return MakeError(Reason::kNotReady,
                              "another call with this request_id is still at it");
        }
        call.machine.OnWoken();
        break;
      }
      case AcquireOnce::Step::kCreate:
      case AcquireOnce::Step::kSwap:
        co_await WriteReceipt(&call);
        break;
      case AcquireOnce::Step::kAdopt:
        co_await AdoptForReceipt(&call);
        break;
      case AcquireOnce::Step::kAcquire:
        co_await AcquireForReceipt(&call);
        break;
      case AcquireOnce::Step::kDestroy:
        co_await DestroyOwn(&call);
        break;
      case AcquireOnce::Step::kAnswer:
        co_return call.acquired;
      case AcquireOnce::Step::kRepeat: {
        absl::StatusOr<Acquired> repeated = co_await Repeated(&call);
        co_return repeated;
      }
      case AcquireOnce::Step::kFail:
        co_return FailureOf(call);
    }
  }
}

absl::Status Broker::FailureOf(const ReceiptCall& call) const {
  switch (call.machine.failure()) {
    case AcquireOnce::Failure::kReused:
      return MakeError(Reason::kRequestIdReused, "request_id was used before with another request");
    case AcquireOnce::Failure::kGone:
      return ReceiptGone();
    case AcquireOnce::Failure::kStore:
      return call.store_error;
    case AcquireOnce::Failure::kNoSandbox:
      return call.acquired.status();
    case AcquireOnce::Failure::kLost:
    case AcquireOnce::Failure::kNone:
      break;
  }
  return MakeError(Reason::kNotReady, "the receipt could not be written; repeat the request");
}

Task<void> Broker::ReadReceipt(ReceiptCall* call) {
  const auto found = co_await receipts_.Read(call->key);
  if (!found.ok()) {
    call->store_error = found.status();
    call->machine.OnUnreadable();
    co_return;
  }
  const bool dead = *found && receipts_.OwnerIsDead((*found)->owner);
  call->machine.OnRead(*found, scheduler_.WallNow(), dead, NewId());
}

Task<void> Broker::WriteReceipt(ReceiptCall* call) {
  AcquireOnce& machine = call->machine;
  const bool binds = machine.phase() == AcquireOnce::Phase::kBinding;
  if (binds) SANDBROKER_FAIL_POINT("acquire.before_bind");
  Task<absl::StatusOr<bool>> task =
      machine.step() == AcquireOnce::Step::kCreate
          ? receipts_.Create(call->key, machine.record())
          : receipts_.CompareAndSet(call->key, machine.expected(), machine.record());
  const absl::StatusOr<bool> done = co_await std::move(task);
  if (binds) SANDBROKER_FAIL_POINT("acquire.bound");
  if (!done.ok()) call->store_error = done.status();
  const bool holds = machine.phase() == AcquireOnce::Phase::kTaking && done.ok() && *done;
  machine.OnWrote(!done.ok() ? AcquireOnce::Wrote::kUnknown
                  : *done    ? AcquireOnce::Wrote::kYes
                             : AcquireOnce::Wrote::kNo);
  if (holds) {
    SANDBROKER_FAIL_POINT("acquire.receipt_created");
  } else {
    WakeReceipt(call->key);
  }
}

// What a try whose broker died, or that hangs beyond its deadline, has claimed becomes this try's.
Task<void> Broker::AdoptForReceipt(ReceiptCall* call) {
  absl::Status sought = co_await SeekReceipt(call->key, call->cancel);
  std::string uid = FindByReceipt(call->who, call->key);
  if (sought.ok() && settling_.count(uid) != 0) {
    sought = co_await WaitIn(&settling_, uid, Enter(&settling_, uid), call->cancel);
    uid = FindByReceipt(call->who, call->key);
  }
  if (!sought.ok()) {
    // There may be one that it would not be right to leave behind.
    call->acquired = sought;
    call->machine.OnFailed("", NewId());
    co_return;
  }
  if (uid.empty()) {
    call->machine.OnNothing();
    co_return;
  }
  call->acquired = co_await TakeOver(uid, call->spec, call->machine.token(), call->cancel);
  TellOutcome(call, uid);
}

Task<void> Broker::AcquireForReceipt(ReceiptCall* call) {
  std::string uid;
  ReceiptMark mark{call->key, call->machine.token()};
  call->acquired = co_await AcquireNew(call->who, call->spec, mark, call->cancel, &uid);
  TellOutcome(call, uid);
}

void Broker::TellOutcome(ReceiptCall* call, const std::string& uid) {
  if (call->acquired.ok()) {
    call->machine.OnSandbox(uid, NewId());
  } else {
    call->machine.OnFailed(uid, NewId());
  }
}

// One that another try has re-stamped meanwhile is not one's own; of another replica's re-stamp one
// hears at the latest when one's own claim is found not to stand any more.
Task<void> Broker::DestroyOwn(ReceiptCall* call) {
  const std::string uid = call->machine.own();
  const std::string cause =
      call->acquired.ok() ? "receipt_lost" : CauseOfFailure(call->acquired.status());
  for (int round = 0; round < 2; ++round) {
    auto it = sandboxes_.find(uid);
    if (it == sandboxes_.end() || it->second->identity().token != call->machine.token()) break;
    const Claim claim = it->second->claim();
    const auto done = co_await DestroyUnchanged(uid, claim, Reason::kSandboxGone, cause);
    if (done.ok() && *done) break;
    it = sandboxes_.find(uid);
    if (!done.ok() && it != sandboxes_.end()) it->second->Spare();  // its lease takes it
    if (!done.ok()) break;
  }
  call->machine.OnDestroyed();
}

std::string Broker::FindByReceipt(const Principal& who, const std::string& key) const {
  for (const auto& [uid, sandbox] : sandboxes_) {
    if (sandbox->identity().receipt != key || sandbox->identity().tenant != who.tenant) continue;
    const SandboxState state = sandbox->state();
    if (state == SandboxState::kReady || state == SandboxState::kUnreachable) return uid;
    if (settling_.count(uid) != 0) return uid;
  }
  return "";
}

// Its env may not have been bound yet; doing it again is harmless, since the request is the same.
Task<absl::StatusOr<Acquired>> Broker::TakeOver(std::string uid, AcquireSpec spec,
                                                std::string token, CancelToken cancel) {
  const Time from = scheduler_.Now();
  absl::Status status = co_await sandboxes_.at(uid)->Restamp(std::move(token));
  if (!status.ok()) co_return status;
  auto it = sandboxes_.find(uid);
  const std::shared_ptr<AgentLink> link =
      it == sandboxes_.end() ? nullptr : it->second->shared_link();
  if (!link) co_return MakeError(Reason::kAgentUnreachable, "its sandbox does not answer");
  if (!spec.env.empty()) status = co_await BindEnvironment(link, spec.env);
  if (!status.ok()) co_return status;
  if (cancel.cancelled()) co_return CallerLeft();
  it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) co_return ReceiptGone();
  status = co_await it->second->Renew();
  if (!status.ok()) co_return status;
  it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) co_return ReceiptGone();
  Acquired acquired{View(*it->second), Source::kAdopted, {}};
  acquired.timing.bound = scheduler_.Now() - from;
  co_return acquired;
}

// The answer counts as activity, and is given once that is written.
Task<absl::StatusOr<Acquired>> Broker::Repeated(ReceiptCall* call) {
  const std::string uid = call->machine.uid();
  absl::Status known;
  if (settling_.count(uid) != 0) {
    known = co_await WaitIn(&settling_, uid, Enter(&settling_, uid), call->cancel);
  } else if (Unsettled(uid)) {
    // A record names no more than the uid; the claim bears the receipt.
    known = co_await SeekReceipt(call->key, call->cancel);
  }
  if (!known.ok()) co_return known;
  auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end() || it->second->identity().tenant != call->who.tenant ||
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

}  // namespace sandbroker::broker

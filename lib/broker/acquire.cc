// Acquire without a receipt, and what one with a receipt has in common with it. The steps are those
// of docs/protocols.md B and C.
#include <utility>

#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/broker.h"
#include "lib/broker/sandbox.h"

namespace sandbroker::broker {
namespace {

absl::Status Draining() {
  return MakeError(Reason::kServerDraining, "this server is going away; try another");
}

}  // namespace

absl::Status Broker::CallerLeft() {
  return MakeError(Reason::kCancelled, "the caller went away before a sandbox was bound");
}

Task<absl::StatusOr<Acquired>> Broker::Acquire(Principal who, AcquireSpec spec,
                                               CancelToken cancel) {
  if (draining_) co_return Draining();
  const Time begin = scheduler_.Now();
  // Not `?:` over two co_await: GCC 12 destroys the temporaries of such an expression twice.
  Task<absl::StatusOr<Acquired>> task = spec.request_id.empty()
                                            ? AcquirePlain(who, spec, cancel)
                                            : AcquireWithReceipt(who, spec, cancel);
  absl::StatusOr<Acquired> result = co_await std::move(task);
  if (result.ok()) result->timing.total = scheduler_.Now() - begin;
  CountAcquire(spec, result);
  SANDBROKER_FAIL_POINT("acquire.before_answer");
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
  const std::string source = result->source == Source::kWarm      ? "warm"
                             : result->source == Source::kCold    ? "cold"
                             : result->source == Source::kAdopted ? "adopted"
                                                                  : "repeated";
  metrics_.CountAcquire(spec.pool, source);
  metrics_.ObserveAcquire(source, std::chrono::duration<double>(result->timing.total).count());
}

Task<absl::StatusOr<Acquired>> Broker::AcquirePlain(Principal who, AcquireSpec spec,
                                                    CancelToken cancel) {
  std::string uid;
  const ReceiptMark none;
  absl::StatusOr<Acquired> acquired = co_await AcquireNew(who, spec, none, cancel, &uid);
  if (!acquired.ok() && !uid.empty()) {
    // Nobody was told of it, so it can be taken back without breaking a promise.
    const std::string cause = CauseOfFailure(acquired.status());
    co_await Destroy(uid, Reason::kSandboxGone, cause);
  }
  co_return acquired;
}

std::string Broker::CauseOfFailure(const absl::Status& status) {
  return ReasonOf(status) == Reason::kCancelled ? "caller_left" : "start_failed";
}

Task<absl::StatusOr<Acquired>> Broker::AcquireNew(Principal who, AcquireSpec spec,
                                                  ReceiptMark receipt, CancelToken cancel,
                                                  std::string* uid) {
  spec.claimant = {who.tenant, receipt.key, receipt.token};
  absl::StatusOr<Binding> binding = co_await backend_.Acquire(spec, cancel);
  if (!binding.ok()) co_return binding.status();
  SANDBROKER_FAIL_POINT("acquire.sandbox_taken");
  *uid = binding->uid;
  const Claim claim{who.tenant, spec.labels, spec.lease, {}, {}, false, receipt.key, receipt.token};
  // Named, not a temporary: GCC 12 destroys an aggregate of a coroutine twice.
  Origin origin{binding->uid, spec.pool, binding->name, binding->link};
  const Lease lease(spec.lease, LeaseSettingsFor(binding->uid), scheduler_.WallNow());
  sandboxes_[binding->uid] = MakeSandbox(std::move(origin), claim, lease);
  absl::StatusOr<Acquired> acquired = co_await HandOut(spec, *binding, cancel);
  co_return acquired;
}

// Written down before the sandbox gets anything of its caller: whoever finds the record after a
// crash knows that it is nobody else's any more.
Task<absl::StatusOr<Acquired>> Broker::HandOut(AcquireSpec spec, Binding binding,
                                               CancelToken cancel) {
  const std::string uid = binding.uid;
  const Time bound_from = scheduler_.Now();
  SANDBROKER_FAIL_POINT("acquire.before_record");
  absl::Status status = co_await sandboxes_.at(uid)->Establish();
  SANDBROKER_FAIL_POINT("acquire.recorded");
  if (!status.ok() && ReasonOf(status) != Reason::kSandboxGone) co_return status;
  if (status.ok() && !spec.env.empty()) {
    status = co_await BindEnvironment(binding.link, spec.env);
    SANDBROKER_FAIL_POINT("acquire.env_bound");
    if (!status.ok()) {
      co_return MakeError(Reason::kAgentUnreachable,
                          StrCat("env could not be bound: ", MessageOf(status)));
    }
  }
  if (cancel.cancelled()) co_return CallerLeft();
  const auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) {
    co_return MakeError(Reason::kAgentUnreachable, "the sandbox ended while it was handed out");
  }
  // Its life began when it was taken out of the pool, and handing it out may have been slow.
  if (!it->second->lease().Leaves(spec.min_remaining, scheduler_.WallNow())) {
    co_return MakeError(Reason::kNotReady,
                        "less than min_remaining was left when the sandbox was ready");
  }
  Acquired acquired{View(*it->second), binding.source, {}};
  acquired.timing.queued = binding.queued;
  acquired.timing.started = binding.started;
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

}  // namespace sandbroker::broker

// Acquiring: one POST, then nothing but what the informers say, then the agent. Whatever ends it
// early leaves a claim that nobody was told of; deleting that has a time of its own.
#include <algorithm>
#include <utility>

#include "lib/backend/kubernetes/api_error.h"
#include "lib/backend/kubernetes/kubernetes_backend.h"
#include "lib/backend/kubernetes/names.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/base/fail_point.h"
#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::kubernetes {
namespace {

// Of what the API server asks for between two tries.
constexpr Duration kMaxPause = std::chrono::seconds(5);

absl::Status CallerLeft() { return MakeError(Reason::kCancelled, "the caller went away"); }

Verdict Failed(absl::Status error) {
  return {.kind = Verdict::Kind::kFailed, .error = std::move(error)};
}

}  // namespace

Task<absl::StatusOr<broker::Binding>> KubernetesBackend::Acquire(const broker::AcquireSpec& spec,
                                                                 CancelToken cancel) {
  const auto it = gates_.find(spec.pool);
  PoolGate* const gate = it == gates_.end() ? nullptr : &it->second;
  return AcquireFrom(gate, spec, std::move(cancel));
}

Task<absl::StatusOr<broker::Binding>> KubernetesBackend::AcquireFrom(PoolGate* gate,
                                                                     broker::AcquireSpec spec,
                                                                     CancelToken cancel) {
  if (gate == nullptr) {
    co_return MakeError(Reason::kPoolNotFound, StrCat("no pool '", CEscape(spec.pool), "'"));
  }
  const Time arrived = parts_.scheduler.Now();
  const Time deadline = SaturatingAdd(arrived, spec.wait_bound);
  const absl::Status entered = co_await gate->Enter(spec.fallback, deadline, cancel);
  if (!entered.ok()) co_return entered;
  if (cancel.cancelled()) {
    gate->Seen();
    co_return CallerLeft();
  }
  const Time begun = parts_.scheduler.Now();
  const HeldPtr held = NewHeld(gate, spec);
  cancel.OnCancel([held] {
    held->left = true;
    held->step.Cancel();
    held->bell.Ring();
  });
  absl::StatusOr<broker::Binding> binding = co_await TakeClaim(held, deadline);
  cancel.OnCancel(nullptr);
  if (!binding.ok()) {
    GiveUp(held);
    co_return binding.status();
  }
  binding->queued = begun - arrived;
  binding->started = parts_.scheduler.Now() - begun;
  co_return binding;
}

// Its name is known before the POST is sent: the claim's event may come first.
KubernetesBackend::HeldPtr KubernetesBackend::NewHeld(PoolGate* gate,
                                                      const broker::AcquireSpec& spec) {
  const auto taken = [this](uint32_t hash) { return cache_.HashTaken(hash); };
  const auto held = std::make_shared<Held>(parts_.scheduler, gate, NewClaimName(taken));
  ClaimOrder order;
  order.name = held->name;
  order.space = settings_.space;
  order.pool = gate->settings().name;
  order.warm_pool = gate->settings().warm_pool;
  order.requested = parts_.scheduler.WallNow();
  order.claim = {spec.claimant.tenant,  spec.labels,        spec.lease, order.requested, {}, false,
                 spec.claimant.receipt, spec.claimant.token};
  // Without a request_id nobody else will ever bind it; it only tells our claim from another's.
  order.holder = spec.claimant.token.empty() ? NewId() : spec.claimant.token;
  const Duration bound = std::min<Duration>(spec.wait_bound, broker::kMaxLifetime);
  order.shutdown = order.requested + bound + settings_.first_backstop;
  held->holder = order.holder;
  held->promise = order.claim;
  held->counted = true;
  boost::json::object object = ClaimToPost(order);
  held->view = ViewClaim(object);
  by_name_[held->name] = held;
  const Time deadline = SaturatingAdd(parts_.scheduler.Now(), spec.wait_bound);
  parts_.scope.Spawn("post claim", Post(held, std::move(object), deadline));
  return held;
}

void KubernetesBackend::CountIn(const HeldPtr& held) {
  if (std::exchange(held->counted, false)) held->gate->Seen();
}

// The same name again until it is known what became of it: a second claim can't come of that.
Task<void> KubernetesBackend::Post(HeldPtr held, boost::json::object object, Time deadline) {
  absl::Status status = MakeError(Reason::kNotReady, "the claim could not be written in time");
  bool unknown = false;
  while (!held->left && held->uid.empty() && parts_.scheduler.Now() < deadline) {
    SANDBROKER_FAIL_POINT("acquire.before_post");
    const Duration bound =
        std::min<Duration>(settings_.call_bound, deadline - parts_.scheduler.Now());
    kube::Resource resource = Claims();
    std::string space = settings_.space;
    boost::json::object copy = object;
    CancelToken cancel = held->step.token();
    const kube::Result result = co_await parts_.api.Create(
        std::move(resource), std::move(space), std::move(copy), bound, std::move(cancel));
    SANDBROKER_FAIL_POINT("acquire.posted");
    if (result.ok()) {
      const ClaimView view = ViewClaim(result.object);
      if (held->uid.empty()) held->view = view;
      Know(held, view.meta.uid);
      status = absl::OkStatus();
      break;
    }
    unknown = unknown || result.outcome == kube::Outcome::kUnknown;
    status = ApiError(result, "create", Claims());
    held->post_error = status;
    if (result.Is(409)) {
      bool foreign = false;
      const bool met = co_await MeetOwnClaim(held, &foreign);
      if (met) status = absl::OkStatus();
      if (met || foreign) break;
    } else if (!IsPassing(result)) {
      break;
    }
    if (held->left) break;
    const Duration pause = result.retry_after.value_or(settings_.retry_pause);
    co_await Pause(std::min<Duration>(pause, kMaxPause));
  }
  if (!held->uid.empty()) status = absl::OkStatus();
  // Perhaps written all the same: cleaning up looks for it.
  held->unsure = held->uid.empty() && unknown;
  held->posted = std::move(status);
  held->bell.Ring();
}

// The name is there: from an earlier POST whose answer was lost, unless the holder is another.
Task<bool> KubernetesBackend::MeetOwnClaim(HeldPtr held, bool* foreign) {
  CancelToken cancel = held->step.token();
  const kube::Result result = co_await GetClaim(held->name, std::move(cancel));
  if (!result.ok()) co_return false;
  const ClaimView view = ViewClaim(result.object);
  if (view.holder != held->holder || !view.ours) {
    *foreign = true;
    co_return false;
  }
  if (held->uid.empty()) held->view = view;
  Know(held, view.meta.uid);
  co_return !held->uid.empty();
}

Task<Verdict> KubernetesBackend::WaitReady(HeldPtr held, Time deadline) {
  while (true) {
    if (held->left || held->state == Held::State::kOver) co_return Failed(CallerLeft());
    Verdict verdict{.why = "the API server has not answered"};
    if (!held->uid.empty()) {
      verdict = Judge(*held);
    } else if (held->posted && !held->posted->ok()) {
      co_return Failed(*held->posted);
    }
    if (verdict.kind != Verdict::Kind::kWait) co_return verdict;
    if (parts_.scheduler.Now() >= deadline) {
      const bool unwritten = held->uid.empty() && !held->post_error.ok();
      co_return Failed(unwritten ? held->post_error : NotReadyInTime(verdict));
    }
    co_await held->bell.Wait(deadline);
  }
}

Task<absl::StatusOr<broker::Binding>> KubernetesBackend::TakeClaim(HeldPtr held, Time deadline) {
  absl::Status met;
  do {
    const Verdict verdict = co_await WaitReady(held, deadline);
    SANDBROKER_FAIL_POINT("acquire.claim_ready");
    if (verdict.kind == Verdict::Kind::kGone) {
      co_return MakeError(Reason::kNotReady,
                          StrCat("the sandbox was not ready in time: ", verdict.why));
    }
    if (verdict.kind == Verdict::Kind::kFailed) co_return verdict.error;
    met = co_await Meet(held, verdict.place, deadline);
    if (held->left) co_return CallerLeft();
    // What is there now decides, e.g. another pod; the same place is not asked for ever.
  } while (absl::IsAborted(met) && parts_.scheduler.Now() < deadline);
  if (!met.ok()) co_return met;
  held->state = Held::State::kBound;
  StartProbe(held);
  broker::Binding binding;
  binding.uid = held->uid;
  binding.name = held->name;
  binding.link = held->link;
  binding.source = held->place->warm ? broker::Source::kWarm : broker::Source::kCold;
  co_return binding;
}

void KubernetesBackend::GiveUp(const HeldPtr& held) {
  CountIn(held);
  // It was bound and is over: its claim is dealt with where that was found out.
  if (held->state == Held::State::kOver) return;
  held->state = Held::State::kUnwanted;
  held->step.Cancel();
  if (const auto link = std::exchange(held->link, nullptr)) {
    link->Close(MakeError(Reason::kSandboxGone, "the acquire was given up"));
  }
  parts_.scope.Spawn("clean up claim", CleanUp(held));
}

Task<void> KubernetesBackend::CleanUp(HeldPtr held) {
  const Time deadline = parts_.scheduler.Now() + settings_.cleanup_bound;
  while (!held->posted && held->uid.empty() && parts_.scheduler.Now() < deadline)
    co_await held->bell.Wait(deadline);
  if (held->uid.empty() && held->unsure) co_await LearnUnwanted(held, deadline);
  if (!held->uid.empty()) {
    const Duration left = std::max<Duration>(deadline - parts_.scheduler.Now(), Duration(1));
    std::string any;
    const auto deleted = co_await DeleteClaim(held->name, held->uid, std::move(any), left);
    if (!deleted.ok()) {
      obs::Log(obs::Level::kWarning, "a claim nobody wants is left to its backstop",
               {{"claim", held->name}, {"why", MessageOf(deleted.status())}});
    }
  }
  Forget(held, MakeError(Reason::kSandboxGone, "given up"));
}

// A POST whose outcome nobody knows may still take effect: looked for, and listened for, for a
// while.
Task<void> KubernetesBackend::LearnUnwanted(HeldPtr held, Time deadline) {
  Duration pause = settings_.retry_pause;
  while (held->uid.empty() && parts_.scheduler.Now() < deadline && !letting_go_) {
    const kube::Result result = co_await GetClaim(held->name, CancelToken());
    if (result.ok() && held->uid.empty()) {
      const ClaimView view = ViewClaim(result.object);
      if (view.holder != held->holder) co_return;
      Know(held, view.meta.uid);
    }
    if (!held->uid.empty()) co_return;
    co_await held->bell.Wait(std::min(deadline, parts_.scheduler.Now() + pause));
    pause = std::min<Duration>(pause * 2, std::chrono::seconds(10));
  }
}

}  // namespace sandbroker::kubernetes

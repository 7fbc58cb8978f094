#include "lib/backend/kubernetes/kubernetes_backend.h"

#include <charconv>
#include <utility>

#include "lib/backend/kubernetes/names.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::kubernetes {
namespace {

// Dials of other brokers' sandboxes at the same time.
constexpr size_t kAdoptionsAtOnce = 64;

}  // namespace

std::string ClaimSelector() { return StrCat(kManagedBy, "=", kManagedByUs); }

KubernetesBackend::KubernetesBackend(BackendParts parts, KubernetesSettings settings)
    : parts_(parts),
      settings_(std::move(settings)),
      started_(parts.scheduler),
      adoptions_(parts.scheduler, kAdoptionsAtOnce) {
  for (const auto& [name, pool] : settings_.pools) {
    gates_.try_emplace(name, parts_.scheduler, cache_, pool);
  }
  using Object = const boost::json::object&;
  claims_feed_ = std::make_unique<Feed>(
      "claims", started_,
      [this](Object object) {
        const ClaimView view = ViewClaim(object);
        const auto touched = cache_.PutClaim(view);
        OnClaimSeen(view);
        OnTouched(touched);
      },
      [this](Object object) { OnTouched(cache_.RemoveClaim(ViewClaim(object).meta)); });
  sandboxes_feed_ = std::make_unique<Feed>(
      "sandboxes", started_,
      [this](Object object) { OnTouched(cache_.PutSandbox(ViewSandbox(object))); },
      [this](Object object) { OnTouched(cache_.RemoveSandbox(ViewSandbox(object).meta)); });
  pods_feed_ = std::make_unique<Feed>(
      "pods", started_,
      [this](Object object) {
        const PodView view = ViewPod(object);
        OnPodTouched(view.meta, cache_.PutPod(view));
      },
      [this](Object object) {
        const Meta meta = ViewPod(object).meta;
        if (const auto waiter = pod_waiters_.extract(meta.uid)) waiter.mapped().Set(true);
        OnPodTouched(meta, cache_.RemovePod(meta));
      });
  pools_feed_ = std::make_unique<Feed>(
      "warm pools", started_,
      [this](Object object) {
        cache_.PutPool(ViewPool(object));
        PumpGates();
      },
      [this](Object object) { cache_.RemovePool(ViewPool(object).meta); });
}

KubernetesBackend::~KubernetesBackend() = default;

std::string KubernetesBackend::stale() const {
  for (const auto* feed : {&claims_feed_, &sandboxes_feed_, &pods_feed_, &pools_feed_}) {
    if (!(*feed)->stale().empty()) return (*feed)->stale();
  }
  return "";
}

std::vector<std::string> KubernetesBackend::capabilities() const {
  return {"task", "request_id", "labels", "env", "replicas"};
}

std::vector<std::string> KubernetesBackend::pools() const {
  std::vector<std::string> names;
  for (const auto& [name, gate] : gates_) names.push_back(name);
  return names;
}

std::vector<broker::PoolCapacity> KubernetesBackend::Capacity() const {
  std::vector<broker::PoolCapacity> all;
  const std::string old = stale();
  for (const auto& [name, gate] : gates_) {
    all.push_back(gate.Capacity());
    if (!old.empty()) all.back().last_error = StrCat("these figures are old: ", old);
  }
  return all;
}

void KubernetesBackend::Drain() {
  draining_ = true;
  for (auto& [name, gate] : gates_) gate.Drain();
}

void KubernetesBackend::LetGo() {
  Drain();
  letting_go_ = true;
  const absl::Status why = MakeError(Reason::kServerDraining, "this server is going away");
  const auto all = by_name_;
  for (const auto& [name, held] : all) {
    held->left = true;
    held->step.Cancel();
    // An acquire under way ends with an error and cleans up; what is bound is left as it is.
    if (held->state != Held::State::kAcquiring && held->state != Held::State::kUnwanted) {
      Forget(held, why);
    }
    held->bell.Ring();
  }
  for (const auto& waiter : std::exchange(pod_waiters_, {})) waiter.second.Set(false);
  started_.Ring();
}

KubernetesBackend::HeldPtr KubernetesBackend::FindHeld(const std::string& uid) const {
  const auto it = by_uid_.find(uid);
  return it == by_uid_.end() ? nullptr : it->second;
}

Seen KubernetesBackend::Look(const Held& held) const {
  Seen seen = cache_.Look(held.uid);
  // Separate watches have no order: its sandbox may be told before it is.
  if (seen.claim == nullptr && !held.seen) seen.claim = &held.view;
  // A sandbox object may go before its pod does.
  if (held.place) {
    const PodView* pod = cache_.PodOf(held.sandbox);
    if (pod != nullptr && pod->meta.uid == held.place->pod_uid) seen.pod = pod;
  }
  return seen;
}

Verdict KubernetesBackend::Judge(const Held& held) const {
  Seen seen = cache_.Look(held.uid);
  if (seen.claim == nullptr && !held.seen) seen.claim = &held.view;
  return JudgeReadiness(seen, held.gate->settings().agent_container);
}

void KubernetesBackend::Know(const HeldPtr& held, const std::string& uid) {
  if (!held->uid.empty() || uid.empty()) return;
  held->uid = uid;
  held->view.meta.uid = uid;
  by_uid_[uid] = held;
  if (cache_.Claim(uid) != nullptr) held->seen = true;
}

void KubernetesBackend::Forget(const HeldPtr& held, const absl::Status& why) {
  CountIn(held);
  held->state = Held::State::kOver;
  held->step.Cancel();
  if (held->place) by_pod_.erase(held->place->pod_uid);
  const auto named = by_name_.find(held->name);
  if (named != by_name_.end() && named->second == held) by_name_.erase(named);
  const auto known = by_uid_.find(held->uid);
  if (known != by_uid_.end() && known->second == held) by_uid_.erase(known);
  held->bell.Ring();
  for (const auto& one : std::exchange(held->probe_waiters, {})) {
    parts_.scheduler.Post([one] { one.Set(false); });
  }
  if (const auto link = std::exchange(held->link, nullptr)) link->Close(why);
}

// Before anything else is decided by a claim's event: whose it is.
void KubernetesBackend::OnClaimSeen(const ClaimView& view) {
  const auto it = by_name_.find(view.meta.name);
  if (it == by_name_.end()) return;
  const HeldPtr held = it->second;
  // The event may overtake the answer to the POST, or that answer may never come.
  if (held->uid.empty() && held->holder == view.holder && view.ours) {
    held->view = view;
    Know(held, view.meta.uid);
  }
  if (held->uid == view.meta.uid) held->seen = true;
  CountIn(held);
}

void KubernetesBackend::OnPodTouched(const Meta& meta, ClusterCache::Touched touched) {
  const auto served = by_pod_.find(meta.uid);
  if (served != by_pod_.end()) touched.push_back(served->second);
  OnTouched(touched);
}

void KubernetesBackend::OnTouched(const ClusterCache::Touched& touched) {
  for (const std::string& uid : touched) OnTouchedOne(uid);
  PumpGates();
}

void KubernetesBackend::OnTouchedOne(const std::string& uid) {
  const HeldPtr held = FindHeld(uid);
  if (!held) {
    const ClaimView* view = cache_.Claim(uid);
    if (view != nullptr && !view->until.empty()) BeginAdoption(*view);
    return;
  }
  held->bell.Ring();
  if (held->state == Held::State::kBound) return OnBoundTouched(held);
  if (!held->place) return;
  // Being dialled: another place is to be dialled instead.
  const Verdict now = Judge(*held);
  if (now.kind != Verdict::Kind::kReady || now.place != *held->place) held->step.Cancel();
}

void KubernetesBackend::OnBoundTouched(const HeldPtr& held) {
  const Seen seen = Look(*held);
  if (seen.claim != nullptr && held->seen && !held->writing) LearnPromise(held, *seen.claim);
  EndIfOver(held, seen);
}

void KubernetesBackend::PumpGates() {
  for (auto& [name, gate] : gates_) gate.Pump();
  Publish();
}

void KubernetesBackend::Publish() const {
  for (const auto& [name, gate] : gates_) {
    const broker::PoolCapacity now = gate.Capacity();
    parts_.metrics.SetPool(name, static_cast<int>(now.ready), static_cast<int>(now.pending),
                           static_cast<int>(now.claimed), static_cast<int>(now.waiting_callers));
  }
}

Task<kube::Result> KubernetesBackend::GetClaim(std::string name, CancelToken cancel) {
  kube::Resource resource = Claims();
  std::string space = settings_.space;
  co_return co_await parts_.api.Get(std::move(resource), std::move(space), std::move(name),
                                    settings_.call_bound, std::move(cancel));
}

}  // namespace sandbroker::kubernetes

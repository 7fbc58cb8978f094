// Claims of other brokers, dead or alive, and new incarnations of known ones: met, probed and given
// to the broker as soon as the cluster shows where they are. Nothing is ever deleted here.
#include <algorithm>
#include <utility>

#include "lib/backend/kubernetes/api_error.h"
#include "lib/backend/kubernetes/kubernetes_backend.h"
#include "lib/backend/kubernetes/names.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::kubernetes {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(200);
constexpr Duration kMaxPause = std::chrono::seconds(10);
// Of complaints about claims that can't be read.
constexpr size_t kMaxUnreadable = 1000;

}  // namespace

Task<void> KubernetesBackend::Start() {
  while (!letting_go_ && !stale().empty()) co_await started_.Wait(kNever);
  const Time deadline = parts_.scheduler.Now() + settings_.adopt_bound;
  std::vector<HeldPtr> pending;
  for (const auto& [uid, held] : by_uid_) {
    if (held->state == Held::State::kAdopting) pending.push_back(held);
  }
  for (const HeldPtr& held : pending) {
    // One whose pod is not ready is taken in later.
    if (Judge(*held).kind == Verdict::Kind::kReady) co_await WaitSettled(held, deadline);
  }
}

KubernetesBackend::HeldPtr KubernetesBackend::BeginAdoption(const ClaimView& view) {
  if (draining_ || view.meta.deleting) return nullptr;
  const auto promise = ReadPromise(view);
  if (!promise.ok()) {
    if (unreadable_.size() < kMaxUnreadable && unreadable_.insert(view.meta.uid).second) {
      obs::Log(obs::Level::kWarning, "a claim can't be read and is left alone",
               {{"claim", view.meta.name}, {"why", MessageOf(promise.status())}});
    }
    return nullptr;
  }
  const auto gate = gates_.find(promise->pool);
  if (gate == gates_.end()) return nullptr;  // a pool of other brokers
  const auto held = std::make_shared<Held>(parts_.scheduler, &gate->second, view.meta.name);
  held->state = Held::State::kAdopting;
  held->view = view;
  held->posted = absl::OkStatus();
  by_name_[held->name] = held;
  Know(held, view.meta.uid);
  Learn(held, view);
  held->promise = promise->claim;
  parts_.scope.Spawn("adopt", Adopt(held));
  return held;
}

Task<void> KubernetesBackend::Adopt(HeldPtr held) {
  Duration pause = kFirstPause;
  while (held->state == Held::State::kAdopting && !held->left) {
    const bool settled = co_await AdoptOnce(held);
    if (settled) break;
    for (const auto& one : std::exchange(held->settled, {})) one.Set(false);
    co_await held->bell.Wait(parts_.scheduler.Now() + pause);
    pause = std::min<Duration>(pause * 2, kMaxPause);
  }
  for (const auto& one : std::exchange(held->settled, {})) {
    one.Set(held->state == Held::State::kBound);
  }
  started_.Ring();
}

// True: bound, or there is nothing more to be done about it.
Task<bool> KubernetesBackend::AdoptOnce(HeldPtr held) {
  const Verdict verdict = co_await WaitReady(held, kNever);
  if (held->state != Held::State::kAdopting) co_return true;
  if (verdict.kind != Verdict::Kind::kReady) {
    // Gone, or never to be ready: its next event looks again.
    Forget(held, MakeError(Reason::kSandboxGone, "not to be had"));
    co_return true;
  }
  co_await adoptions_.Take();
  const Turn turn(adoptions_);
  const Time deadline = parts_.scheduler.Now() + settings_.dial_bound;
  const absl::Status met = co_await Meet(held, verdict.place, deadline);
  held->trouble = met;
  if (!met.ok()) co_return held->state != Held::State::kAdopting;
  StartProbe(held);
  const absl::Status probed = co_await AwaitProbe(held);
  held->trouble = probed;
  if (held->state != Held::State::kAdopting) co_return true;
  if (probed.ok()) {
    Bind(held);
    co_return true;
  }
  by_pod_.erase(held->place->pod_uid);
  held->place.reset();
  if (const auto link = std::exchange(held->link, nullptr)) link->Close(probed);
  // One that is not safe is asked again at long intervals only: its pod may be replaced.
  co_return false;
}

void KubernetesBackend::Bind(const HeldPtr& held) {
  held->state = Held::State::kBound;
  const ClaimView* view = cache_.Claim(held->uid);
  if (view != nullptr) LearnPromise(held, *view);
  SANDBROKER_FAIL_POINT("adopt.answered");
  if (observer_ != nullptr) {
    observer_->OnAdopted(
        {held->uid, held->gate->settings().name, held->promise, held->link, held->name});
  }
  // What came while it was probed.
  if (held->state == Held::State::kBound) OnBoundTouched(held);
}

Task<absl::Status> KubernetesBackend::WaitSettled(HeldPtr held, Time deadline) {
  if (held->state == Held::State::kAdopting) {
    const OneShot<bool> settled;
    held->settled.push_back(settled);
    const auto timer =
        parts_.scheduler.After(std::max<Duration>(deadline - parts_.scheduler.Now(), Duration(0)),
                               [settled] { settled.Set(false); });
    co_await settled.Wait();
  }
  if (held->state == Held::State::kBound) co_return absl::OkStatus();
  if (held->state == Held::State::kOver && !letting_go_) co_return absl::OkStatus();
  // ABORTED only says that it was another one just now.
  const bool told = !held->trouble.ok() && ReasonOf(held->trouble) != Reason::kUnspecified;
  co_return told ? held->trouble : NotReadyInTime(Judge(*held));
}

// From a consistent read, whatever the informers know yet.
Task<absl::Status> KubernetesBackend::AdoptNow(ClaimView view, Time deadline) {
  HeldPtr held = FindHeld(view.meta.uid);
  // Another call of this very process is at it, or it is being given up.
  if (held && held->state != Held::State::kAdopting) co_return absl::OkStatus();
  if (!held) {
    if (cache_.Claim(view.meta.uid) == nullptr) OnTouched(cache_.PutClaim(view));
    held = FindHeld(view.meta.uid);
  }
  if (!held) held = BeginAdoption(view);
  if (!held && draining_) co_return MakeError(Reason::kServerDraining, "try another server");
  if (!held) {
    co_return MakeError(Reason::kPoolNotFound,
                        StrCat("claim ", view.meta.name, " is of a pool '", CEscape(view.pool),
                               "' that this broker does not serve"));
  }
  co_return co_await WaitSettled(held, deadline);
}

Task<absl::Status> KubernetesBackend::Seek(std::string name, std::string uid) {
  const HeldPtr held = FindHeld(uid);
  if (held && held->state == Held::State::kBound) co_return absl::OkStatus();
  const Time deadline = parts_.scheduler.Now() + settings_.seek_bound;
  const kube::Result result = co_await GetClaim(std::move(name), CancelToken());
  if (result.Is(404)) co_return absl::OkStatus();
  if (!result.ok()) co_return ApiError(result, "get", Claims());
  ClaimView view = ViewClaim(result.object);
  if (view.meta.uid != uid || view.meta.deleting) co_return absl::OkStatus();
  co_return co_await AdoptNow(std::move(view), deadline);
}

Task<absl::Status> KubernetesBackend::SeekReceipt(std::string key) {
  const Time deadline = parts_.scheduler.Now() + settings_.seek_bound;
  kube::Resource resource = Claims();
  std::string space = settings_.space;
  std::string selector = StrCat(ClaimSelector(), ",", kReceiptLabel, "=", LabelOfReceipt(key));
  const kube::Result result =
      co_await parts_.api.List(std::move(resource), std::move(space), std::move(selector),
                               settings_.call_bound, CancelToken());
  if (!result.ok()) co_return ApiError(result, "list", Claims());
  const boost::json::value* items = result.object.if_contains("items");
  if (items == nullptr || !items->is_array()) co_return absl::OkStatus();
  for (const boost::json::value& item : items->get_array()) {
    if (!item.is_object()) continue;
    ClaimView view = ViewClaim(item.get_object());
    const auto promise = ReadPromise(view);
    // The label is a cut key.
    if (!promise.ok() || promise->claim.receipt != key || view.meta.deleting) continue;
    const absl::Status adopted = co_await AdoptNow(std::move(view), deadline);
    if (!adopted.ok()) co_return adopted;
  }
  co_return absl::OkStatus();
}

}  // namespace sandbroker::kubernetes

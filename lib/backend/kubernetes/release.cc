// Deleting claims: always the very object that is meant, again until it is known to be gone. What
// belongs to it (sandbox, pod, service) goes with it by the cluster's own garbage collection.
#include <algorithm>
#include <utility>

#include "lib/backend/kubernetes/api_error.h"
#include "lib/backend/kubernetes/kubernetes_backend.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"

namespace sandbroker::kubernetes {
namespace {

constexpr int kDecisions = 5;

}  // namespace

Task<void> KubernetesBackend::Pause(Duration duration) {
  const OneShot<bool> over;
  const auto timer = parts_.scheduler.After(duration, [over] { over.Set(true); });
  co_await over.Wait();
}

// False: it is another version than `version` by now.
Task<absl::StatusOr<bool>> KubernetesBackend::DeleteClaim(std::string name, std::string uid,
                                                          std::string version, Duration bound) {
  const Time deadline = parts_.scheduler.Now() + bound;
  while (true) {
    const Duration left = deadline - parts_.scheduler.Now();
    kube::Resource resource = Claims();
    std::string space = settings_.space;
    std::string object = name;
    kube::DeleteOptions options{uid, version, false};
    SANDBROKER_FAIL_POINT("release.before_delete");
    const kube::Result result = co_await parts_.api.Delete(
        std::move(resource), std::move(space), std::move(object), std::move(options),
        std::clamp<Duration>(left, std::chrono::milliseconds(1), settings_.call_bound),
        CancelToken());
    SANDBROKER_FAIL_POINT("release.deleted");
    if (result.ok() || result.Is(404)) co_return true;
    if (result.Is(409)) {
      const kube::Result now = co_await GetClaim(name, CancelToken());
      // The name may have a new owner already.
      if (now.Is(404) || (now.ok() && ViewClaim(now.object).meta.uid != uid)) co_return true;
      if (now.ok() && !version.empty()) co_return false;
    } else if (!IsPassing(result)) {
      co_return ApiError(result, "delete", Claims());
    }
    const Duration pause = result.retry_after.value_or(settings_.retry_pause);
    if (letting_go_ || parts_.scheduler.Now() + pause >= deadline) {
      co_return ApiError(result, "delete", Claims());
    }
    co_await Pause(pause);
  }
}

Task<absl::Status> KubernetesBackend::Release(const std::string& uid) { return ReleaseOne(uid); }

Task<absl::Status> KubernetesBackend::ReleaseOne(std::string uid) {
  const HeldPtr held = FindHeld(uid);
  std::string name = held ? held->name : "";
  if (!held) {
    const ClaimView* view = cache_.Claim(uid);
    if (view == nullptr) co_return absl::OkStatus();
    name = view->meta.name;
  }
  const bool bound = held && held->state == Held::State::kBound;
  if (held) {
    held->state = Held::State::kReleasing;
    held->step.Cancel();
    held->bell.Ring();
  }
  const Time deadline = parts_.scheduler.Now() + settings_.release_bound;
  std::string any;
  const auto deleted =
      co_await DeleteClaim(std::move(name), uid, std::move(any), settings_.release_bound);
  if (!held) co_return deleted.status();
  if (!deleted.ok()) {
    // It may live on: it is served as before, and whoever released it may try again.
    if (held->state == Held::State::kReleasing) TakeBack(held, bound);
    co_return deleted.status();
  }
  const std::string pod = held->place ? held->place->pod_uid : "";
  Forget(held, MakeError(Reason::kSandboxGone, "released"));
  if (settings_.wait_for_pod && !pod.empty()) co_await WaitPodGone(pod, deadline);
  co_return absl::OkStatus();
}

void KubernetesBackend::TakeBack(const HeldPtr& held, bool bound) {
  if (!bound) return Forget(held, MakeError(Reason::kSandboxGone, "released"));
  held->state = Held::State::kBound;
  OnBoundTouched(held);
  if (held->state == Held::State::kBound && !held->link) Reconnect(held);
}

Task<void> KubernetesBackend::WaitPodGone(std::string pod_uid, Time deadline) {
  const OneShot<bool> gone;
  if (!pod_waiters_.emplace(pod_uid, gone).second) co_return;
  const auto timer =
      parts_.scheduler.After(std::max<Duration>(deadline - parts_.scheduler.Now(), Duration(0)),
                             [gone] { gone.Set(false); });
  co_await gone.Wait();
  pod_waiters_.erase(pod_uid);
}

Task<absl::StatusOr<bool>> KubernetesBackend::ReleaseUnchanged(std::string uid,
                                                               broker::Claim as_read) {
  const HeldPtr held = FindHeld(uid);
  if (!held) co_return true;
  // Nothing of our own is to come in between.
  co_await held->writes.Take();
  const Turn turn(held->writes);
  if (held->state == Held::State::kOver) co_return true;
  held->writing = true;
  const absl::StatusOr<bool> deleted = co_await DeleteUnchanged(held, std::move(as_read));
  held->writing = false;
  if (deleted.ok() && *deleted) Forget(held, MakeError(Reason::kSandboxGone, "lease_expired"));
  co_return deleted;
}

Task<absl::StatusOr<bool>> KubernetesBackend::DeleteUnchanged(HeldPtr held, broker::Claim as_read) {
  for (int i = 0; i < kDecisions; ++i) {
    const absl::StatusOr<ClaimView> view = co_await ReadClaim(held);
    if (ReasonOf(view.status()) == Reason::kSandboxGone) co_return true;
    if (!view.ok()) co_return view.status();
    const auto promise = ReadPromise(*view);
    if (!promise.ok()) co_return MakeError(Reason::kInternal, "the sandbox's claim can't be read");
    if (!broker::SamePromise(promise->claim, as_read)) {
      LearnPromise(held, *view);
      co_return false;
    }
    // The controller's writes change the version too: then it is decided again.
    const auto deleted = co_await DeleteClaim(held->name, held->uid, view->meta.resource_version,
                                              settings_.release_bound);
    if (!deleted.ok() || *deleted) co_return deleted;
  }
  co_return MakeError(Reason::kApiUnreachable, "the sandbox's claim keeps changing");
}

}  // namespace sandbroker::kubernetes

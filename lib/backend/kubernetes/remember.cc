// What is promised about a sandbox is what stands on its claim: changed by one conditional patch,
// and where another broker was faster, merged with what it wrote. The informer tells of others'
// writes.
#include <charconv>
#include <utility>

#include "lib/backend/kubernetes/api_error.h"
#include "lib/backend/kubernetes/kubernetes_backend.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/backend/kubernetes/times.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::kubernetes {
namespace {

constexpr int kWriteTries = 5;
// A claim whose backstop is this near may be deleted although its patch was taken.
constexpr Duration kNearEnd = std::chrono::seconds(2);

absl::Status Gone() { return MakeError(Reason::kSandboxGone, "the sandbox has ended"); }

// Opaque by the API's word, yet in practice the count of one store. 0: can't be compared.
uint64_t VersionOf(const ClaimView& view) {
  uint64_t version = 0;
  const std::string& text = view.meta.resource_version;
  std::from_chars(text.data(), text.data() + text.size(), version);
  return version;
}

}  // namespace

void KubernetesBackend::Learn(const HeldPtr& held, const ClaimView& view) {
  held->version = std::max(held->version, VersionOf(view));
  held->until = view.until;
  held->holder = view.holder;
}

void KubernetesBackend::LearnPromise(const HeldPtr& held, const ClaimView& view) {
  const uint64_t version = VersionOf(view);
  if (version != 0 && version <= held->version) return;
  if (view.until == held->until && view.holder == held->holder) {
    held->version = version;
    if (held->view.promise == view.promise) return;
  }
  held->view.promise = view.promise;
  const auto promise = ReadPromise(view);
  // Somebody has spoiled it: what was promised stands.
  if (!promise.ok()) return;
  // A version that can't be compared, and an older end.
  if (version == 0 && promise->claim.until < held->promise.until) return;
  Learn(held, view);
  if (broker::SamePromise(promise->claim, held->promise)) return;
  held->promise = promise->claim;
  if (held->state == Held::State::kBound && observer_ != nullptr) {
    observer_->OnClaimChanged(held->uid, promise->claim);
  }
}

Task<absl::Status> KubernetesBackend::Remember(std::string uid, broker::Claim claim,
                                               std::optional<broker::Claim> base) {
  const HeldPtr held = FindHeld(uid);
  if (!held || held->state != Held::State::kBound) co_return Gone();
  co_await held->writes.Take();
  const Turn turn(held->writes);
  if (held->state != Held::State::kBound) co_return Gone();
  held->writing = true;
  const absl::Status written = co_await WriteClaim(held, std::move(claim), std::move(base));
  held->writing = false;
  SANDBROKER_FAIL_POINT("acquire.lease_written");
  if (!written.ok()) co_return written;
  // Beside the first write; no work comes before it.
  const absl::Status probed = co_await AwaitProbe(held);
  if (!probed.ok()) co_return probed;
  if (held->state != Held::State::kBound) co_return Gone();
  // What the informer said meanwhile.
  OnBoundTouched(held);
  co_return held->state == Held::State::kBound ? absl::OkStatus() : Gone();
}

Task<absl::Status> KubernetesBackend::WriteClaim(HeldPtr held, broker::Claim claim,
                                                 std::optional<broker::Claim> base) {
  Write write{base.value_or(held->promise), claim, claim};
  if (!broker::SamePromise(write.base, held->promise)) {
    // Another broker has written, as the observer has heard, since this was made.
    const auto merged = broker::MergeClaims(write.base, write.ours, held->promise);
    if (!merged) co_return absl::OkStatus();
    write.wanted = *merged;
  }
  for (int tries = 0; tries < kWriteTries; ++tries) {
    const std::optional<absl::Status> done = co_await TryWrite(held, &write);
    if (done) co_return *done;
    if (held->state != Held::State::kBound) co_return Gone();
  }
  co_return MakeError(Reason::kApiUnreachable, "the sandbox's claim keeps changing");
}

Task<std::optional<absl::Status>> KubernetesBackend::TryWrite(HeldPtr held, Write* write) {
  const broker::Claim& wanted = write->wanted;
  // What stands there by our knowledge before the write; the informer may move it meanwhile.
  const ClaimChange change{held->uid,    held->until, held->holder,
                           wanted.token, wanted,      BackstopOf(wanted, settings_.lease)};
  const bool near_end =
      BackstopOf(held->promise, settings_.lease) - parts_.scheduler.WallNow() < kNearEnd &&
      !held->until.empty();
  kube::Resource resource = Claims();
  std::string space = settings_.space;
  std::string name = held->name;
  boost::json::array patch = ChangePatch(change);
  const kube::Result result =
      co_await parts_.api.PatchJson(std::move(resource), std::move(space), std::move(name),
                                    std::move(patch), settings_.call_bound, CancelToken());
  if (result.ok()) {
    Learn(held, ViewClaim(result.object));
    held->promise = wanted;
    if (!near_end) co_return absl::OkStatus();
  } else if (result.Is(403) || result.Is(401) || result.outcome == kube::Outcome::kNotSent) {
    co_return ApiError(result, "patch", Claims());
  }
  // Refused, or nobody knows: what stands there decides.
  const absl::StatusOr<ClaimView> view = co_await ReadClaim(held);
  if (!view.ok()) co_return view.status();
  const auto stands = ReadPromise(*view);
  if (!stands.ok()) {
    co_return MakeError(Reason::kInternal, StrCat("the sandbox's claim was changed by somebody: ",
                                                  MessageOf(stands.status())));
  }
  const bool unchanged = view->until == change.old_until && view->holder == change.old_holder;
  if (unchanged && result.Is(422)) co_return ApiError(result, "patch", Claims());
  co_return Reconcile(held, write, *stands, *view, result.Is(422));
}

std::optional<absl::Status> KubernetesBackend::Reconcile(const HeldPtr& held, Write* write,
                                                         const Promise& stands,
                                                         const ClaimView& view, bool refused) {
  Learn(held, view);
  broker::Claim theirs = stands.claim;
  if (!stands.leased) {  // not written yet, by anybody
    theirs.until = write->base.until;
    theirs.outage_ttl = write->base.outage_ttl;
  }
  if (!refused && stands.leased && broker::SamePromise(theirs, write->wanted)) {
    held->promise = theirs;  // it was taken after all
    return absl::OkStatus();
  }
  if (!broker::SamePromise(theirs, held->promise)) {
    held->promise = theirs;
    if (observer_ != nullptr) observer_->OnClaimChanged(held->uid, theirs);
  }
  const auto merged = broker::MergeClaims(write->base, write->ours, theirs);
  if (!merged && stands.leased) return absl::OkStatus();
  write->wanted = merged.value_or(theirs);
  return std::nullopt;
}

Task<absl::StatusOr<ClaimView>> KubernetesBackend::ReadClaim(HeldPtr held) {
  const kube::Result result = co_await GetClaim(held->name, CancelToken());
  if (!result.ok() && !result.Is(404)) co_return ApiError(result, "get", Claims());
  ClaimView view;
  if (result.ok()) view = ViewClaim(result.object);
  if (view.meta.uid == held->uid && !view.meta.deleting) co_return view;
  // Whoever asks is told; the observer hears it too, for whoever does not ask.
  if (held->state == Held::State::kBound) {
    Forget(held, Gone());
    if (observer_ != nullptr) {
      observer_->OnSandboxGone(held->uid, std::string(broker::kDeletedElsewhere));
    }
  }
  co_return Gone();
}

Task<absl::StatusOr<broker::Claim>> KubernetesBackend::Reread(std::string uid) {
  const HeldPtr held = FindHeld(uid);
  if (!held) co_return Gone();
  const absl::StatusOr<ClaimView> view = co_await ReadClaim(held);
  if (!view.ok()) co_return view.status();
  const auto promise = ReadPromise(*view);
  if (!promise.ok()) {
    co_return MakeError(Reason::kInternal, StrCat("the sandbox's claim was changed by somebody: ",
                                                  MessageOf(promise.status())));
  }
  if (!held->writing) LearnPromise(held, *view);
  co_return promise->claim;
}

}  // namespace sandbroker::kubernetes

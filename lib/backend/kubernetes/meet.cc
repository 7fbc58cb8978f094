// Meeting an agent: the dial, the probe of a new incarnation, and dialling again when a link was
// lost. A place is what the cluster shows; whoever answers there has also proved itself to the
// dialer.
#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "lib/backend/kubernetes/kubernetes_backend.h"
#include "lib/backend/kubernetes/probe_run.h"
#include "lib/backend/kubernetes/resources.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::kubernetes {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(50);

// The dialer's error, with what an operator may have to look at.
absl::Status Explained(const absl::Status& status, const Place& place) {
  ErrorDetail detail = DetailOf(status);
  detail.reason = Reason::kAgentUnreachable;
  detail.metadata["address"] = place.address;
  detail.metadata["node"] = place.node;
  const bool silent =
      detail.metadata.count("connection") == 0 || detail.metadata.at("connection") == "unanswered";
  const std::string hint =
      silent ? "; its pod is ready, so look at the NetworkPolicy of its template (it must let the "
               "broker in) and at the agent's port"
             : "";
  return MakeError(std::move(detail), StrCat("the sandbox's agent at ", place.address,
                                             " could not be reached: ", MessageOf(status), hint));
}

}  // namespace

// Of one that was met before, only the very same agent is taken.
Task<absl::StatusOr<KubernetesBackend::Dialed>> KubernetesBackend::Dial(HeldPtr held, bool again,
                                                                        Duration bound) {
  broker::DialTarget target;
  target.host = held->place->address;
  target.port = held->gate->settings().agent_port;
  target.signing_key = signing_key_;
  if (again) {
    target.expected_boot_id = held->boot_id;
    target.expected_fingerprint = held->fingerprint;
  }
  held->step = CancelSource();
  target.cancel = held->step.token();
  const uint64_t link = ++held->links;
  const OneShot<absl::StatusOr<Dialed>> answer;
  const std::weak_ptr<Held> weak = held;
  parts_.dialer.Dial(
      target, bound,
      [this, weak, link](const absl::Status& why) {
        if (const HeldPtr alive = weak.lock()) OnLinkLost(alive, link, why);
      },
      [answer](absl::StatusOr<Dialed> dialed) { answer.Set(std::move(dialed)); });
  co_return co_await answer.Wait();
}

// ABORTED: what is there now is another place than `place`; look again. `held->place` is set on OK.
Task<absl::Status> KubernetesBackend::Meet(HeldPtr held, Place place, Time deadline) {
  held->place = place;
  const Duration bound =
      std::clamp<Duration>(deadline - parts_.scheduler.Now(), Duration(0), settings_.dial_bound);
  auto dialed = co_await Dial(held, false, bound);
  SANDBROKER_FAIL_POINT("acquire.dialled");
  const Verdict now = Judge(*held);
  const bool same = now.kind == Verdict::Kind::kReady && now.place == place;
  const bool wanted = !held->left && held->state != Held::State::kOver;
  if (dialed.ok() && same && wanted) {
    held->link = std::move(dialed->link);
    held->boot_id = held->link->info().boot_id;
    held->fingerprint = held->link->info().fingerprint;
    const SandboxObject* sandbox = cache_.Look(held->uid).sandbox;
    held->sandbox = sandbox->meta.name;
    held->last_pod = *cache_.PodOf(held->sandbox);
    held->probe.reset();
    by_pod_[place.pod_uid] = held->uid;
    co_return absl::OkStatus();
  }
  held->place.reset();
  if (dialed.ok()) dialed->link->Close(MakeError(Reason::kSandboxGone, "it changed meanwhile"));
  if (!wanted) co_return MakeError(Reason::kCancelled, "the sandbox is not wanted any more");
  if (!same) co_return absl::AbortedError("the sandbox changed while it was dialled");
  co_return Explained(dialed.status(), place);
}

void KubernetesBackend::StartProbe(const HeldPtr& held) {
  const std::weak_ptr<Held> weak = held;
  RunProbe(parts_.scheduler, held->link, settings_.probe_bound,
           [weak](const absl::StatusOr<ProbeFacts>& facts) {
             const HeldPtr alive = weak.lock();
             if (!alive || alive->probe) return;
             if (facts.ok()) {
               obs::Log(obs::Level::kDebug, "sandbox probed",
                        {{"claim", alive->name},
                         {"uids", facts->uids},
                         {"seccomp", facts->seccomp},
                         {"ambient", facts->ambient}});
             } else {
               obs::Log(obs::Level::kError, "a sandbox did not pass the probe",
                        {{"claim", alive->name}, {"why", MessageOf(facts.status())}});
             }
             alive->probe = facts.status();
             for (const auto& one : std::exchange(alive->probe_waiters, {})) one.Set(true);
           });
}

Task<absl::Status> KubernetesBackend::AwaitProbe(HeldPtr held) {
  if (!held->probe) {
    const OneShot<bool> probed;
    held->probe_waiters.push_back(probed);
    co_await probed.Wait();
  }
  if (held->probe) co_return *held->probe;
  co_return MakeError(Reason::kSandboxGone, "the sandbox ended before it was probed");
}

bool KubernetesBackend::EndIfOver(const HeldPtr& held, const Seen& seen) {
  const PodView* last = held->last_pod ? &*held->last_pod : nullptr;
  const Life life = JudgeLife(*held->place, seen, last, held->gate->settings().agent_container);
  if (seen.pod != nullptr && seen.pod->meta.uid == held->place->pod_uid) held->last_pod = *seen.pod;
  if (life.kind != Life::Kind::kOver) return false;
  EndIncarnation(held, life.cause);
  return true;
}

// The claim may live on, and then its next incarnation is taken in like another broker's.
void KubernetesBackend::EndIncarnation(const HeldPtr& held, const std::string& cause) {
  const bool promised = !held->until.empty();
  const std::string uid = held->uid;
  obs::Log(obs::Level::kInfo, "a sandbox's incarnation is over",
           {{"claim", held->name}, {"cause", cause}});
  Forget(held, MakeError(Reason::kSandboxGone, cause));
  if (observer_ != nullptr) observer_->OnSandboxGone(uid, cause);
  const ClaimView* view = cache_.Claim(uid);
  if (view == nullptr && held->seen) return;
  if (promised && view != nullptr) {
    BeginAdoption(*view);
  } else if (!promised) {
    // Nobody was told of it.
    const auto rest = std::make_shared<Held>(parts_.scheduler, held->gate, held->name);
    rest->uid = uid;
    rest->state = Held::State::kUnwanted;
    rest->posted = absl::OkStatus();
    parts_.scope.Spawn("clean up claim", CleanUp(rest));
  }
}

void KubernetesBackend::OnLinkLost(const HeldPtr& held, uint64_t link, const absl::Status& why) {
  if (held->links != link || !held->link) return;
  held->link.reset();
  if (held->state != Held::State::kBound) return;
  obs::Log(obs::Level::kWarning, "link lost", {{"claim", held->name}, {"why", MessageOf(why)}});
  if (observer_ != nullptr) observer_->OnLinkLost(held->uid, why);
  // What the cluster shows already may say why.
  if (held->state != Held::State::kBound || EndIfOver(held, Look(*held))) return;
  Reconnect(held);
}

void KubernetesBackend::Reconnect(const HeldPtr& held) {
  if (!std::exchange(held->relinking, true)) parts_.scope.Spawn("relink", Relink(held));
}

Task<void> KubernetesBackend::Relink(HeldPtr held) {
  const Time since = parts_.scheduler.Now();
  Duration pause{0};
  bool reread = false;
  while (held->state == Held::State::kBound && !held->left) {
    if (pause > Duration(0)) co_await held->bell.Wait(parts_.scheduler.Now() + pause);
    if (held->state != Held::State::kBound || held->left) break;
    const bool linked = co_await RelinkOnce(held);
    if (linked || held->state != Held::State::kBound) break;
    const bool slow = parts_.scheduler.Now() - since >= settings_.relink_bound;
    if (!reread || slow) {
      reread = true;
      co_await RereadPod(held);
    }
    pause = std::clamp<Duration>(pause * 2, kFirstPause, std::chrono::seconds(1));
    if (slow) pause = settings_.relink_slow;
  }
  held->relinking = false;
}

// Programs and their output stay with the agent; only the very same one is taken.
Task<bool> KubernetesBackend::RelinkOnce(HeldPtr held) {
  auto dialed = co_await Dial(held, true, settings_.dial_bound);
  if (!dialed.ok()) co_return false;
  if (held->state != Held::State::kBound || held->left) {
    dialed->link->Close(MakeError(Reason::kSandboxGone, "the sandbox is being released"));
    co_return false;
  }
  held->link = std::move(dialed->link);
  if (observer_ != nullptr) observer_->OnLinkRestored(held->uid, held->link);
  co_return true;
}

// The informer may be behind just when it matters.
Task<void> KubernetesBackend::RereadPod(HeldPtr held) {
  kube::Resource resource = Pods();
  std::string space = settings_.space;
  std::string name = held->sandbox;
  const kube::Result result = co_await parts_.api.Get(
      std::move(resource), std::move(space), std::move(name), settings_.call_bound, CancelToken());
  if (held->state != Held::State::kBound) co_return;
  Seen seen = Look(*held);
  PodView pod;
  if (result.ok()) {
    pod = ViewPod(result.object);
    seen.pod = &pod;
  } else if (result.Is(404)) {
    seen.pod = nullptr;
  } else {
    co_return;
  }
  EndIfOver(held, seen);
}

}  // namespace sandbroker::kubernetes

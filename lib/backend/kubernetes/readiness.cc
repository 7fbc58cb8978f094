#include "lib/backend/kubernetes/readiness.h"

#include <algorithm>
#include <array>
#include <optional>

#include "lib/backend/kubernetes/pod_diagnosis.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::kubernetes {
namespace {

// The controller does not try these again, or tries for ever what only an operator can mend.
constexpr std::array<std::string_view, 8> kTerminal = {
    "InvalidMetadata", "EnvVarsInjectionRejected", "VolumeClaimTemplatesError", "ClaimExpired",
    "SandboxExpired",  "InvalidConfiguration",     "WarmPoolNotFound",          "TemplateNotFound"};

// Kinds of ReconcilerError that no retry heals. A name collision is one, since our names are never
// used again: the other sandbox is somebody else's. A pod owned by a former sandbox of the same
// name is none: it goes.
constexpr std::array<std::string_view, 4> kNeverHeals = {
    "environment variable override is not allowed", "not found in template",
    "is not controlled by claim", "conflicting metadata"};

bool IsTerminal(const Condition& ready) {
  if (!ready.Not()) return false;
  if (std::find(kTerminal.begin(), kTerminal.end(), ready.reason) != kTerminal.end()) return true;
  if (ready.reason != "ReconcilerError") return false;
  return std::any_of(kNeverHeals.begin(), kNeverHeals.end(), [&](std::string_view words) {
    return ready.message.find(words) != std::string::npos;
  });
}

std::string Words(const Condition& condition) {
  return condition.message.empty() ? condition.reason
                                   : StrCat(condition.reason, ": ", condition.message);
}

absl::Status Rejected(const ClaimView& claim, const Condition& condition) {
  ErrorDetail detail;
  detail.reason = Reason::kClaimRejected;
  detail.metadata = {{"pool", claim.pool},
                     {"warm_pool", claim.warm_pool},
                     {"controller_reason", condition.reason},
                     {"controller_message", condition.message}};
  return MakeError(std::move(detail), StrCat("the cluster refuses a sandbox of pool '", claim.pool,
                                             "': ", Words(condition)));
}

absl::Status NoImage(const PodView& pod, const std::string& words) {
  ErrorDetail detail;
  detail.reason = Reason::kImagePull;
  detail.metadata = {{"pod", pod.meta.name}, {"node", pod.node}};
  return MakeError(std::move(detail), StrCat("the sandbox's image can't be had: ", words));
}

Verdict Wait(std::string why) { return {.kind = Verdict::Kind::kWait, .why = std::move(why)}; }
Verdict Fail(absl::Status error) {
  return {.kind = Verdict::Kind::kFailed, .error = std::move(error)};
}

// The claim's own words are the last resort: they say «Pod exists with phase: Pending» for ever.
std::string BestWords(const Seen& seen, const PodTrouble& trouble) {
  if (!trouble.words.empty()) return trouble.words;
  if (seen.sandbox->suspended) return "its sandbox is suspended";
  if (seen.sandbox->scheduled.Not()) return Words(seen.sandbox->scheduled);
  if (seen.sandbox->ready.Not()) return Words(seen.sandbox->ready);
  if (seen.claim->ready.Not()) return Words(seen.claim->ready);
  return "";
}

std::optional<Place> PlaceOf(const Seen& seen, const std::string& agent_container) {
  const SandboxObject& sandbox = *seen.sandbox;
  if (!sandbox.Addressed() || sandbox.suspended || sandbox.meta.uid.empty()) return std::nullopt;
  if (seen.pod == nullptr) return std::nullopt;
  const PodView& pod = *seen.pod;
  // The pod of a former sandbox of this name, or one that is ending: its address is still shown.
  if (pod.sandbox_uid != sandbox.meta.uid || pod.meta.uid.empty()) return std::nullopt;
  if (pod.meta.deleting || pod.Over()) return std::nullopt;
  // One of the two views is old: the address may be somebody else's by now.
  if (std::find(sandbox.ips.begin(), sandbox.ips.end(), pod.ip) == sandbox.ips.end()) {
    return std::nullopt;
  }
  const ContainerView* agent = AgentContainer(pod, agent_container);
  return Place{pod.ip,
               sandbox.meta.uid,
               pod.meta.uid,
               pod.node,
               agent == nullptr ? 0 : agent->restarts,
               sandbox.launch == "warm"};
}

}  // namespace

Verdict JudgeReadiness(const Seen& seen, const std::string& agent_container) {
  if (seen.claim == nullptr) return {.kind = Verdict::Kind::kGone, .why = "the claim was deleted"};
  const ClaimView& claim = *seen.claim;
  // Expiry shows before the deletion; whoever asks hears why.
  if (IsTerminal(claim.ready)) return Fail(Rejected(claim, claim.ready));
  if (claim.meta.deleting) {
    return {.kind = Verdict::Kind::kGone, .why = "the claim is being deleted"};
  }
  if (seen.sandbox == nullptr) {
    if (claim.ready.Not()) return Wait(Words(claim.ready));
    // Up to 2 s without a word are usual while the pool's members have no address yet.
    return Wait("the controller has not answered yet");
  }
  if (IsTerminal(seen.sandbox->ready)) return Fail(Rejected(claim, seen.sandbox->ready));
  if (auto place = PlaceOf(seen, agent_container)) {
    return {.kind = Verdict::Kind::kReady, .place = *std::move(place)};
  }
  const PodView* pod = seen.pod;
  PodTrouble trouble;
  if (pod != nullptr && pod->sandbox_uid == seen.sandbox->meta.uid) trouble = Diagnose(*pod);
  if (trouble.kind == PodTrouble::Kind::kImage) return Fail(NoImage(*pod, trouble.words));
  return Wait(BestWords(seen, trouble));
}

absl::Status NotReadyInTime(const Verdict& verdict) {
  return MakeError(Reason::kNotReady,
                   verdict.why.empty()
                       ? "the sandbox was not ready in time"
                       : StrCat("the sandbox was not ready in time: ", verdict.why));
}

}  // namespace sandbroker::kubernetes

#include "lib/backend/kubernetes/pod_diagnosis.h"

#include <array>

#include "lib/base/strings.h"

namespace sandbroker::kubernetes {
namespace {

// A registry that answered no, or an image that the node does not have and may not fetch.
constexpr std::array<std::string_view, 5> kImageReasons = {"ErrImagePull", "ImagePullBackOff",
                                                           "ErrImageNeverPull", "InvalidImageName",
                                                           "ImageInspectError"};

bool IsImageReason(std::string_view reason) {
  for (const std::string_view one : kImageReasons) {
    if (one == reason) return true;
  }
  return false;
}

std::string WithWords(std::string_view what, std::string_view words) {
  return words.empty() ? std::string(what) : StrCat(what, ": ", words);
}

}  // namespace

std::string EndOf(const Termination& ended) {
  if (!ended.there) return "";
  if (ended.reason == "OOMKilled") return "out of memory";
  return StrCat("exit code ", ended.exit_code);
}

PodTrouble Diagnose(const PodView& pod) {
  for (const ContainerView& container : pod.containers) {
    if (!IsImageReason(container.waiting_reason)) continue;
    return {PodTrouble::Kind::kImage,
            StrCat("container '", CEscape(container.name),
                   "': ", WithWords(container.waiting_reason, container.waiting_message))};
  }
  if (pod.meta.deleting) return {PodTrouble::Kind::kWait, "its pod is being ended"};
  if (pod.scheduled.Not()) {
    return {PodTrouble::Kind::kWait, WithWords(pod.scheduled.reason, pod.scheduled.message)};
  }
  for (const ContainerView& container : pod.containers) {
    // These two are how every pod begins.
    const std::string& reason = container.waiting_reason;
    if (reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing") continue;
    return {PodTrouble::Kind::kWait, StrCat("container '", CEscape(container.name),
                                            "': ", WithWords(reason, container.waiting_message))};
  }
  if (pod.Over()) return {PodTrouble::Kind::kWait, StrCat("its pod ended: ", CauseOfEnd(pod, ""))};
  return {};
}

std::string CauseOfEnd(const PodView& pod, const std::string& agent_container) {
  if (pod.reason == "Evicted") return WithWords("evicted", pod.message);
  // Memory first: a node that evicts for memory also kills for it.
  const ContainerView* agent = AgentContainer(pod, agent_container);
  for (const ContainerView& container : pod.containers) {
    if (container.ended.reason == "OOMKilled") return "out of memory";
  }
  if (!pod.disruption.empty()) return StrCat("evicted: ", pod.disruption);
  if (!pod.reason.empty()) return WithWords(pod.reason, pod.message);
  // Who deletes a pod ends its containers too: their exit codes are not the cause.
  if (pod.meta.deleting) return std::string(kPodDeleted);
  if (agent != nullptr && agent->ended.there) return EndOf(agent->ended);
  return pod.Over() ? "its pod ended" : std::string(kPodDeleted);
}

}  // namespace sandbroker::kubernetes

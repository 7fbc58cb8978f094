#include "lib/backend/kubernetes/incarnation.h"

#include "lib/backend/kubernetes/pod_diagnosis.h"
#include "lib/base/strings.h"
#include "lib/broker/backend.h"

namespace sandbroker::kubernetes {
namespace {

Life Over(std::string cause) { return {Life::Kind::kOver, std::move(cause)}; }

// Of a pod that is not there any more, or that another one stands for.
std::string LastWords(const Place& served, const PodView* last_pod, const std::string& container,
                      std::string_view otherwise) {
  if (last_pod == nullptr || last_pod->meta.uid != served.pod_uid) return std::string(otherwise);
  const std::string cause = CauseOfEnd(*last_pod, container);
  return cause == kPodDeleted ? std::string(otherwise) : cause;
}

}  // namespace

Life JudgeLife(const Place& served, const Seen& seen, const PodView* last_pod,
               const std::string& agent_container) {
  // A claim that is being deleted takes everything along, whatever its pod still does meanwhile.
  if (seen.claim == nullptr || seen.claim->meta.deleting) {
    return Over(std::string(broker::kDeletedElsewhere));
  }
  const PodView* pod = seen.pod;
  const bool same_pod = pod != nullptr && pod->meta.uid == served.pod_uid;
  if (!same_pod) {
    // A pod object goes once its containers have ended, or for good with its node.
    const bool other =
        pod != nullptr || (seen.sandbox != nullptr && seen.sandbox->meta.uid != served.sandbox_uid);
    return Over(LastWords(served, last_pod, agent_container, other ? "replaced" : kPodDeleted));
  }
  if (pod->Over()) return Over(CauseOfEnd(*pod, agent_container));
  const ContainerView* agent = AgentContainer(*pod, agent_container);
  if (agent != nullptr && agent->restarts != served.restarts) {
    const std::string how = EndOf(agent->last_ended);
    if (how == "out of memory") return Over(how);
    return Over(how.empty() ? "restarted" : StrCat("restarted: ", how));
  }
  if (agent != nullptr && agent->ended.there) return Over(CauseOfEnd(*pod, agent_container));
  if (pod->meta.deleting) return {Life::Kind::kEnding, CauseOfEnd(*pod, agent_container)};
  return {};
}

}  // namespace sandbroker::kubernetes

// Objects as the API server shows them, cut to what the Kubernetes backend reads: a claim, the
// sandbox it owns, that sandbox's pod, a pool. Tests change a field and hand them to an informer's
// observer. Any thread.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>

namespace sandbroker::testing {

namespace json = boost::json;

inline json::object Meta(const std::string& name, const std::string& uid) {
  return {{"name", name}, {"uid", uid}, {"namespace", "boxes"}, {"resourceVersion", "1"}};
}

inline json::object ConditionJson(const std::string& type, const std::string& status,
                                  const std::string& reason, const std::string& message) {
  return {{"type", type}, {"status", status}, {"reason", reason}, {"message", message}};
}

// Puts a condition in place of the one of its type.
inline void SetCondition(json::object* object, const json::object& condition) {
  json::object& status = (*object)["status"].is_object() ? (*object)["status"].as_object()
                                                         : (*object)["status"].emplace_object();
  json::array kept;
  if (status["conditions"].is_array()) {
    for (const json::value& one : status["conditions"].as_array()) {
      if (one.at("type") != condition.at("type")) kept.push_back(one);
    }
  }
  kept.push_back(condition);
  status["conditions"] = std::move(kept);
}

inline void SetReady(json::object* object, bool ready, const std::string& reason,
                     const std::string& message = "") {
  SetCondition(object, ConditionJson("Ready", ready ? "True" : "False", reason, message));
}

inline void SetDeleting(json::object* object) {
  (*object)["metadata"].as_object()["deletionTimestamp"] = "2026-11-29T23:00:00Z";
}

inline json::array OwnedBy(const std::string& kind, const std::string& name,
                           const std::string& uid) {
  return {json::object{{"kind", kind}, {"name", name}, {"uid", uid}, {"controller", true}}};
}

inline json::object PoolJson(const std::string& name, int replicas) {
  return {{"metadata", Meta(name, "uid-of-" + name)},
          {"spec", {{"replicas", replicas}, {"sandboxTemplateRef", {{"name", "t"}}}}},
          {"status", {{"readyReplicas", replicas}}}};
}

// Ready, its pod's address being `ip`; a member of `pool` until it is owned by a claim.
inline json::object SandboxJson(const std::string& name, const std::string& ip,
                                const std::string& pool) {
  json::object object = {{"metadata", Meta(name, "uid-of-" + name)},
                         {"spec", {{"operatingMode", "Running"}}},
                         {"status", {{"podIPs", json::array{ip}}, {"nodeName", "node-1"}}}};
  object["metadata"].as_object()["ownerReferences"] =
      OwnedBy("SandboxWarmPool", pool, "uid-of-" + pool);
  SetReady(&object, true, "DependenciesReady", "Pod is Ready");
  return object;
}

inline void GiveToClaim(json::object* sandbox, const std::string& claim,
                        const std::string& claim_uid, bool warm) {
  json::object& meta = sandbox->at("metadata").as_object();
  meta["ownerReferences"] = OwnedBy("SandboxClaim", claim, claim_uid);
  meta["labels"] = json::object{{"agents.x-k8s.io/launch-type", warm ? "warm" : "cold"},
                                {"agents.x-k8s.io/claim-uid", claim_uid}};
}

// Running, one container "agent".
inline json::object PodJson(const std::string& sandbox, const std::string& ip,
                            const std::string& pod_uid) {
  json::object object = {
      {"metadata", Meta(sandbox, pod_uid)},
      {"spec",
       {{"nodeName", "node-1"}, {"containers", json::array{json::object{{"name", "agent"}}}}}},
      {"status",
       {{"phase", "Running"},
        {"podIP", ip},
        {"containerStatuses",
         json::array{json::object{
             {"name", "agent"}, {"restartCount", 0}, {"state", {{"running", json::object()}}}}}}}}};
  object["metadata"].as_object()["ownerReferences"] =
      OwnedBy("Sandbox", sandbox, "uid-of-" + sandbox);
  SetCondition(&object, ConditionJson("PodScheduled", "True", "", ""));
  return object;
}

inline json::object& AgentStatus(json::object* pod) {
  return pod->at("status").as_object().at("containerStatuses").as_array().at(0).as_object();
}

inline json::object Ended(const std::string& reason, int exit_code) {
  return {{"terminated", {{"reason", reason}, {"exitCode", exit_code}}}};
}

}  // namespace sandbroker::testing

// Pools, members and pods of a ScriptedController, and what their status says.
#include <boost/json/array.hpp>
#include <cstdio>
#include <utility>

#include "lib/base/strings.h"
#include "tests/support/controller_objects.h"
#include "tests/support/scripted_controller.h"

namespace sandbroker::testing {

namespace json = boost::json;

std::string ScriptedController::NextAddress() {
  const int number = addresses_++;
  return StrCat("127.0.", 1 + number / 250, ".", 1 + number % 250);
}

void ScriptedController::AddPool(const std::string& pool, int members) {
  server_.WithStore([&](ObjectStore& store) {
    const json::object spec{{"podTemplate", {{"spec", {{"containers", json::array()}}}}}};
    store.Create(kTemplates, space_, {{"metadata", {{"name", pool}}}, {"spec", spec}});
    store.Create(kWarmPools, space_,
                 {{"metadata", {{"name", pool}}},
                  {"spec", {{"replicas", members}, {"sandboxTemplateRef", {{"name", pool}}}}},
                  {"status", {{"replicas", members}, {"readyReplicas", members}}}});
    for (int i = 0; i < members; ++i) MakeMember(pool, true);
  });
}

std::string ScriptedController::AddMember(const std::string& pool, bool ready) {
  std::string name;
  server_.WithStore([&](ObjectStore&) { name = MakeMember(pool, ready); });
  return name;
}

std::string ScriptedController::MakeMember(const std::string& pool, bool ready) {
  char suffix[16];
  std::snprintf(suffix, sizeof(suffix), "%05d", ++names_);
  const std::string name = StrCat(pool, "-", suffix);
  const std::string uid = TextAt(Read(kWarmPools, pool), "metadata.uid");
  json::object metadata{{"labels", {{kPoolLabel, pool}}},
                        {"ownerReferences", Owner("extensions.agents.x-k8s.io/v1beta1",
                                                  "SandboxWarmPool", pool, uid)}};
  MakeSandbox(name, std::move(metadata));
  MakePod(name, ready);
  SetSandboxStatus(name, ready, ready, ready ? "DependenciesReady" : "DependenciesNotReady",
                   ready ? "Pod is Ready" : "Pod exists with phase: Pending");
  return name;
}

void ScriptedController::MakeSandbox(const std::string& name, json::object metadata) {
  metadata["name"] = Text(name);
  const json::object spec{{"podTemplate", {{"spec", {{"containers", json::array()}}}}},
                          {"operatingMode", "Running"}};
  store_->Create(kSandboxes, space_, {{"metadata", std::move(metadata)}, {"spec", spec}});
}

void ScriptedController::MakePod(const std::string& name, bool ready) {
  const std::string uid = TextAt(Read(kSandboxes, name), "metadata.uid");
  json::object labels;
  const std::string claim = LabelOf(Read(kSandboxes, name), kClaimLabel);
  if (!claim.empty()) labels[kClaimLabel] = Text(claim);
  store_->Create(kPods, space_,
                 {{"metadata",
                   {{"name", name},
                    {"labels", std::move(labels)},
                    {"ownerReferences", Owner("agents.x-k8s.io/v1beta1", "Sandbox", name, uid)}}},
                  {"spec", {{"nodeName", "node-1"}}},
                  {"status", {{"phase", "Pending"}}}});
  if (!ready) return;
  const std::string address = NextAddress();
  Change(kPods, name, [&](json::object& pod) {
    pod["status"] = {
        {"phase", "Running"},
        {"podIP", address},
        {"podIPs", json::array{{{"ip", address}}}},
        {"conditions", json::array{{{"type", "Ready"}, {"status", "True"}}}},
        {"containerStatuses", json::array{{{"name", "main"},
                                           {"ready", true},
                                           {"restartCount", 0},
                                           {"state", {{"running", {{"startedAt", kOldTime}}}}}}}}};
  });
}

// `addressed`: with the addresses of its pod.
void ScriptedController::SetSandboxStatus(const std::string& sandbox, bool addressed, bool ready,
                                          const std::string& reason, const std::string& message) {
  const std::string address = TextAt(Read(kPods, sandbox), "status.podIP");
  Change(kSandboxes, sandbox, [&](json::object& object) {
    json::array addresses;
    if (addressed && !address.empty()) addresses.push_back(Text(address));
    SetAt(object, "status.podIPs", std::move(addresses));
    SetAt(object, "status.nodeName", "node-1");
    SetCondition(object, Condition("Ready", ready ? "True" : "False", reason, message, object));
    SetCondition(object, Condition("Suspended", "False", "NotSuspended", "", object));
  });
}

void ScriptedController::SetClaimStatus(const std::string& claim, const std::string& sandbox,
                                        bool ready, const std::string& reason,
                                        const std::string& message) {
  const json::object bound = Read(kSandboxes, sandbox);
  Change(kClaims, claim, [&](json::object& object) {
    if (!sandbox.empty()) {
      SetAt(object, "status.sandbox.name", Text(sandbox));
      const json::value* addresses = At(bound, "status.podIPs");
      SetAt(object, "status.sandbox.podIPs", addresses != nullptr ? *addresses : json::array());
    }
    SetCondition(object, Condition("Ready", ready ? "True" : "False", reason, message, object));
  });
}

}  // namespace sandbroker::testing

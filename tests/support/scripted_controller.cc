#include "tests/support/scripted_controller.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstdio>
#include <utility>

#include "lib/base/strings.h"

namespace sandbroker::testing {
namespace {

namespace json = boost::json;

constexpr const char* kOldTime = "2026-01-01T00:00:00Z";
constexpr const char* kPoolLabel = "agents.x-k8s.io/warm-pool-sandbox";
constexpr const char* kClaimLabel = "agents.x-k8s.io/claim-uid";
constexpr const char* kHint = "agents.x-k8s.io/sandbox-name";

json::string Text(const std::string& text) { return json::string(text.data(), text.size()); }

// A member of a map whose key has dots in it.
json::object& Map(json::object& object, const std::string& path) {
  const json::value* there = At(object, path);
  if (there == nullptr || !there->is_object()) SetAt(object, path, json::object());
  return const_cast<json::object&>(At(object, path)->get_object());
}

json::object& Annotations(json::object& object) { return Map(object, "metadata.annotations"); }
json::object& Labels(json::object& object) { return Map(object, "metadata.labels"); }

std::string LabelOf(const json::object& object, const char* key) {
  const json::value* labels = At(object, "metadata.labels");
  if (labels == nullptr) return "";
  const json::value* value = labels->get_object().if_contains(key);
  return value == nullptr ? "" : std::string(value->as_string().data(), value->as_string().size());
}

json::object Condition(const char* type, const char* status, const std::string& reason,
                       const std::string& message, const json::object& owner) {
  return {{"type", type},
          {"status", status},
          {"reason", reason},
          {"message", message},
          {"lastTransitionTime", kOldTime},
          {"observedGeneration", *At(owner, "metadata.generation")}};
}

// Puts it in the place of the one of its type.
void SetCondition(json::object& object, json::object condition) {
  const json::value* there = At(object, "status.conditions");
  json::array all = there != nullptr ? there->get_array() : json::array();
  const auto it = std::find_if(all.begin(), all.end(), [&](const json::value& one) {
    return one.get_object().at("type") == condition.at("type");
  });
  if (it != all.end()) {
    *it = std::move(condition);
  } else {
    all.push_back(std::move(condition));
  }
  SetAt(object, "status.conditions", std::move(all));
}

void DropCondition(json::object& object, const char* type) {
  json::array kept;
  if (const json::value* all = At(object, "status.conditions")) {
    for (const json::value& one : all->get_array()) {
      if (one.get_object().at("type") != type) kept.push_back(one);
    }
  }
  SetAt(object, "status.conditions", std::move(kept));
}

json::array Owner(const char* api, const char* kind, const std::string& name,
                  const std::string& uid) {
  return {{{"apiVersion", api},
           {"kind", kind},
           {"name", name},
           {"uid", uid},
           {"controller", true},
           {"blockOwnerDeletion", true}}};
}

std::string OwnerUid(const json::object& object) {
  const json::value* owners = At(object, "metadata.ownerReferences");
  if (owners == nullptr || owners->get_array().empty()) return "";
  return TextAt(owners->get_array()[0].get_object(), "uid");
}

}  // namespace

ScriptedController::ScriptedController(ScriptedApiServer& server, std::string space)
    : server_(server), space_(std::move(space)) {
  server_.WithStore([this](ObjectStore& store) { store_ = &store; });
  server_.OnChange([this](const ObjectStore::Change& change) { OnChange(change); });
}

ScriptedController::~ScriptedController() { server_.OnChange(nullptr); }

void ScriptedController::SetAutomatic(bool automatic) {
  server_.WithStore([&](ObjectStore&) { automatic_ = automatic; });
}
void ScriptedController::SetCleanup(bool automatic) {
  server_.WithStore([&](ObjectStore&) { cleanup_ = automatic; });
}
void ScriptedController::SetRefill(bool refill) {
  server_.WithStore([&](ObjectStore&) { refill_ = refill; });
}
void ScriptedController::SetWay(const std::string& pool, Way way) {
  server_.WithStore([&](ObjectStore&) { ways_[pool] = way; });
}

void ScriptedController::Change(const kube::Resource& resource, const std::string& name,
                                const std::function<void(json::object&)>& change) {
  store_->Update(resource, space_, name, change);
}

json::object ScriptedController::Read(const kube::Resource& resource,
                                      const std::string& name) const {
  auto answer = store_->Get(resource, space_, name);
  return answer.ok() ? std::move(answer.body) : json::object();
}

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

std::string ScriptedController::FreeMember(const std::string& pool,
                                           const std::string& except) const {
  const auto list = store_->List(kSandboxes, space_, StrCat(kPoolLabel, "=", pool), 0, "");
  for (const json::value& item : list.body.at("items").as_array()) {
    const std::string name = TextAt(item.get_object(), "metadata.name");
    const json::value* addresses = At(item.get_object(), "status.podIPs");
    if (addresses == nullptr || addresses->get_array().empty()) continue;
    if (name != except && promised_.count(name) == 0) return name;
  }
  return "";
}

void ScriptedController::OnChange(const ObjectStore::Change& change) {
  if (change.resource.plural != "sandboxclaims" || change.space != space_) return;
  if (!change.before && change.after) return BeginClaim(*change.after);
  const bool marked = change.after && At(*change.after, "metadata.deletionTimestamp") != nullptr;
  const bool before = change.before && At(*change.before, "metadata.deletionTimestamp") != nullptr;
  if (!change.after) {
    if (!before) CleanUp(*change.before);
  } else if (marked && !before) {
    dying_claims_.push_back(change.name);
    CleanUp(*change.after);
  }
}

void ScriptedController::BeginClaim(const json::object& object) {
  const std::string claim = TextAt(object, "metadata.name");
  const std::string pool = TextAt(object, "spec.warmPoolRef.name");
  const auto way = ways_.find(pool);
  Way how = way != ways_.end() ? way->second : Way::kNatural;
  if (how == Way::kNatural && Read(kWarmPools, pool).empty()) how = Way::kWarmPoolNotFound;
  Script& script = scripts_[claim];
  script.clear();
  script.push_back({"observed", [this, claim] {
                      Change(kClaims, claim, [](json::object& c) {
                        Annotations(c)["agents.x-k8s.io/controller-first-observed-at"] = kOldTime;
                      });
                    }});
  const std::string member = FreeMember(pool);
  switch (how) {
    case Way::kNatural:
      if (member.empty()) {
        Cold(claim, how, &script);
      } else {
        Warm(claim, member, &script, true);
      }
      break;
    case Way::kMemberNotReady:
      Warm(claim, member, &script, false);
      break;
    case Way::kHintRetracted: {
      const std::string other = FreeMember(pool, member);
      script.push_back({"hint", [this, claim, member] {
                          Change(kClaims, claim,
                                 [&](json::object& c) { Annotations(c)[kHint] = Text(member); });
                        }});
      Warm(claim, other, &script, true);
      break;
    }
    case Way::kCold:
    case Way::kUnschedulable:
    case Way::kNeverReady:
      Cold(claim, how, &script);
      break;
    case Way::kNoStatus:
      break;
    case Way::kWarmPoolNotFound:
      Refused(claim, "WarmPoolNotFound", StrCat("SandboxWarmPool \"", pool, "\" not found"),
              &script);
      break;
    case Way::kTemplateNotFound:
      Refused(claim, "TemplateNotFound", StrCat("SandboxTemplate \"", pool, "\" not found"),
              &script);
      break;
    case Way::kInvalidMetadata:
      Refused(claim, "InvalidMetadata",
              "invalid additionalPodMetadata: failed to validate label \"foo\": label \"foo\" must "
              "have a domain prefix",
              &script);
      break;
    case Way::kEnvRejected:
      Refused(claim, "EnvVarsInjectionRejected",
              "environment variable injection rejected: environment variable injection is not "
              "allowed by the template policy",
              &script);
      break;
    case Way::kReconcilerError:
      Refused(claim, "ReconcilerError",
              StrCat("Error seen: sandbox \"", claim, "\" is not controlled by claim \"", claim,
                     "\". Please use a different claim name or delete the sandbox manually"),
              &script);
      break;
    case Way::kInvalidConfiguration:
      Refused(claim, "InvalidConfiguration", "the API server refused a child for good", &script);
      break;
  }
  while (automatic_ && !script.empty()) {
    const StepOf step = std::move(script.front());
    script.pop_front();
    step.run();
  }
}

void ScriptedController::Refused(const std::string& claim, const std::string& reason,
                                 const std::string& message, Script* script) {
  script->push_back({"refused", [=, this] { SetClaimStatus(claim, "", false, reason, message); }});
}

void ScriptedController::TakeMember(const std::string& claim, const std::string& member) {
  const std::string uid = TextAt(Read(kClaims, claim), "metadata.uid");
  std::string pool;
  Change(kSandboxes, member, [&](json::object& sandbox) {
    pool = LabelOf(sandbox, kPoolLabel);
    Labels(sandbox).erase(kPoolLabel);
    Labels(sandbox)[kClaimLabel] = Text(uid);
    Labels(sandbox)["agents.x-k8s.io/launch-type"] = "warm";
    SetAt(sandbox, "metadata.ownerReferences",
          Owner("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim", claim, uid));
  });
  promised_.erase(member);
  if (refill_ && !pool.empty()) MakeMember(pool, true);
}

void ScriptedController::Warm(const std::string& claim, const std::string& member, Script* script,
                              bool ready) {
  promised_[member] = claim;
  const auto add = [&](const char* name, std::function<void()> run) {
    // A claim that is gone meanwhile gets nothing more.
    script->push_back({name, [this, claim, run] {
                         if (!Read(kClaims, claim).empty()) run();
                       }});
  };
  // The whole claim is written: its spec changes too.
  add("hint", [this, claim, member] {
    Change(kClaims, claim, [&](json::object& c) {
      Annotations(c)[kHint] = Text(member);
      if (At(c, "spec.additionalPodMetadata") == nullptr) {
        SetAt(c, "spec.additionalPodMetadata", json::object());
      }
      const std::string until = TextAt(c, "spec.lifecycle.shutdownTime");
      if (until.size() > 20) {
        SetAt(c, "spec.lifecycle.shutdownTime", Text(until.substr(0, 19) + "Z"));
      }
    });
  });
  add("owned", [this, claim, member, ready] {
    TakeMember(claim, member);
    if (!ready) {
      SetSandboxStatus(member, true, false, "DependenciesNotReady", "Pod is Running but not Ready");
    }
  });
  if (!ready) {
    add("not-ready", [this, claim, member] {
      SetClaimStatus(claim, member, false, "DependenciesNotReady", "Pod is Running but not Ready");
    });
    return;
  }
  add("ready", [this, claim, member] {
    SetClaimStatus(claim, member, true, "DependenciesReady", "Pod is Ready");
  });
  add("pod", [this, claim, member] {
    const std::string uid = TextAt(Read(kClaims, claim), "metadata.uid");
    Change(kPods, member, [&](json::object& pod) { Labels(pod)[kClaimLabel] = Text(uid); });
  });
  for (const auto& [step, value] :
       {std::pair("first-ready", kOldTime), std::pair("unknown", "unknown")}) {
    const std::string text = value;
    add(step, [this, claim, text] {
      Change(kClaims, claim, [&](json::object& c) {
        Annotations(c)["agents.x-k8s.io/claim-first-ready-at"] = Text(text);
      });
    });
  }
  add("settled", [this, member] {
    SetSandboxStatus(member, true, true, "DependenciesReady", "Pod is Ready");
    Change(kSandboxes, member, [](json::object& s) { SetAt(s, "status.settled", true); });
  });
}

void ScriptedController::Cold(const std::string& claim, Way way, Script* script) {
  const auto add = [&](const char* name, std::function<void()> run) {
    script->push_back({name, [this, claim, run] {
                         if (!Read(kClaims, claim).empty()) run();
                       }});
  };
  add("sandbox", [this, claim] {
    const std::string uid = TextAt(Read(kClaims, claim), "metadata.uid");
    json::object metadata{{"labels", {{kClaimLabel, uid}, {"agents.x-k8s.io/launch-type", "cold"}}},
                          {"ownerReferences", Owner("extensions.agents.x-k8s.io/v1beta1",
                                                    "SandboxClaim", claim, uid)}};
    MakeSandbox(claim, std::move(metadata));
  });
  add("pod", [this, claim] { MakePod(claim, false); });
  add("not-ready", [this, claim] {
    SetClaimStatus(claim, claim, false, "SandboxNotReady", "Sandbox is not ready");
  });
  add("pending", [this, claim, way] {
    SetSandboxStatus(claim, false, false, "DependenciesNotReady", "Pod exists with phase: Pending");
    if (way == Way::kUnschedulable) {
      Change(kSandboxes, claim, [](json::object& s) {
        SetCondition(s, Condition("PodScheduled", "False", "Unschedulable",
                                  "0/1 nodes are available: 1 Insufficient memory.", s));
      });
    }
    SetClaimStatus(claim, claim, false, "DependenciesNotReady", "Pod exists with phase: Pending");
  });
  if (way == Way::kUnschedulable) return;
  add("running", [this, claim] {
    const std::string address = NextAddress();
    Change(kPods, claim, [&](json::object& pod) {
      pod["status"] = {{"phase", "Running"},
                       {"podIP", address},
                       {"podIPs", json::array{{{"ip", address}}}},
                       {"containerStatuses",
                        json::array{{{"name", "main"},
                                     {"ready", false},
                                     {"restartCount", 0},
                                     {"state", {{"running", {{"startedAt", kOldTime}}}}}}}}};
    });
    SetSandboxStatus(claim, true, false, "DependenciesNotReady", "Pod is Running but not Ready");
    SetClaimStatus(claim, claim, false, "DependenciesNotReady", "Pod is Running but not Ready");
  });
  if (way == Way::kNeverReady) return;
  add("ready", [this, claim] {
    Change(kPods, claim, [](json::object& pod) {
      SetAt(pod, "status.conditions", json::array{{{"type", "Ready"}, {"status", "True"}}});
    });
    SetSandboxStatus(claim, true, true, "DependenciesReady", "Pod is Ready");
    SetClaimStatus(claim, claim, true, "DependenciesReady", "Pod is Ready");
  });
}

std::vector<std::string> ScriptedController::Steps(const std::string& claim) const {
  std::vector<std::string> names;
  server_.WithStore([&](ObjectStore&) {
    const auto it = scripts_.find(claim);
    if (it == scripts_.end()) return;
    for (const StepOf& step : it->second) names.push_back(step.name);
  });
  return names;
}

bool ScriptedController::AwaitClaim(const std::string& claim) const {
  return server_.Await([this, claim] { return scripts_.count(claim) != 0; });
}

bool ScriptedController::Step(const std::string& claim) {
  bool made = false;
  server_.WithStore([&](ObjectStore&) {
    const auto it = scripts_.find(claim);
    if (it == scripts_.end() || it->second.empty()) return;
    const StepOf step = std::move(it->second.front());
    it->second.pop_front();
    step.run();
    made = true;
  });
  return made;
}

bool ScriptedController::StepTo(const std::string& claim, const std::string& step) {
  if (!AwaitClaim(claim)) return false;
  const auto steps = Steps(claim);
  const auto it = std::find(steps.begin(), steps.end(), step);
  if (it == steps.end()) return false;
  for (auto at = steps.begin(); at <= it; ++at) Step(claim);
  return true;
}

void ScriptedController::Finish(const std::string& claim) {
  if (!AwaitClaim(claim)) return;
  while (Step(claim)) continue;
}

std::string ScriptedController::SandboxOf(const std::string& claim) const {
  std::string name;
  server_.WithStore([&](ObjectStore&) {
    const std::string uid = TextAt(Read(kClaims, claim), "metadata.uid");
    if (uid.empty()) return;
    const auto list = store_->List(kSandboxes, space_, StrCat(kClaimLabel, "=", uid), 0, "");
    const json::array& items = list.body.at("items").as_array();
    if (!items.empty()) name = TextAt(items[0].get_object(), "metadata.name");
  });
  return name;
}

// Ready and Finished of a Sandbox, on its claim.
void ScriptedController::Mirror(const std::string& sandbox) {
  const json::object from = Read(kSandboxes, sandbox);
  const auto claims = store_->List(kClaims, space_, "", 0, "");
  for (const json::value& item : claims.body.at("items").as_array()) {
    if (TextAt(item.get_object(), "metadata.uid") != OwnerUid(from)) continue;
    Change(kClaims, TextAt(item.get_object(), "metadata.name"), [&](json::object& claim) {
      DropCondition(claim, "Finished");
      const json::value* all = At(from, "status.conditions");
      for (const json::value& one : all->get_array()) {
        const std::string type = TextAt(one.get_object(), "type");
        if (type == "Ready" || type == "Finished") SetCondition(claim, one.get_object());
      }
      SetAt(claim, "status.sandbox.name", Text(sandbox));
      const json::value* addresses = At(from, "status.podIPs");
      SetAt(claim, "status.sandbox.podIPs", addresses != nullptr ? *addresses : json::array());
    });
  }
}

void ScriptedController::BeginPodDeletion(const std::string& sandbox) {
  server_.WithStore([&](ObjectStore&) {
    Change(kPods, sandbox, [](json::object& pod) {
      SetAt(pod, "metadata.deletionTimestamp", kOldTime);
      SetAt(pod, "metadata.deletionGracePeriodSeconds", 1);
    });
  });
}

void ScriptedController::EndPod(const std::string& sandbox, int exit_code,
                                const std::string& reason) {
  server_.WithStore([&](ObjectStore&) {
    const bool good = exit_code == 0 && reason != "Evicted";
    Change(kPods, sandbox, [&](json::object& pod) {
      SetAt(pod, "status.phase", good ? "Succeeded" : "Failed");
      if (reason == "Evicted") {
        SetAt(pod, "status.reason", "Evicted");
        SetAt(pod, "status.message", "The node was low on resource: memory.");
        return;
      }
      const json::object ended{{"exitCode", exit_code}, {"reason", reason}};
      SetAt(pod, "status.containerStatuses",
            json::array{{{"name", "main"},
                         {"ready", false},
                         {"restartCount", 0},
                         {"state", {{"terminated", ended}}}}});
    });
    const std::string why = good ? "PodSucceeded" : "PodFailed";
    const std::string message = good ? "Pod completed successfully" : "Pod failed";
    SetSandboxStatus(sandbox, true, false, why, message);
    Change(kSandboxes, sandbox, [&](json::object& s) {
      SetCondition(s, Condition("Finished", "True", why, message, s));
    });
    Mirror(sandbox);
  });
}

void ScriptedController::ReplacePod(const std::string& sandbox) {
  server_.WithStore([&](ObjectStore& store) {
    store.Remove(kPods, space_, sandbox);
    SetSandboxStatus(sandbox, false, false, "DependenciesNotReady", "Pod does not exist");
    Change(kSandboxes, sandbox, [](json::object& s) { DropCondition(s, "Finished"); });
    Mirror(sandbox);
    MakePod(sandbox, true);
    SetSandboxStatus(sandbox, true, true, "DependenciesReady", "Pod is Ready");
    Mirror(sandbox);
  });
}

void ScriptedController::RestartContainer(const std::string& sandbox) {
  server_.WithStore([&](ObjectStore&) {
    Change(kPods, sandbox, [](json::object& pod) {
      const json::object last{{"terminated", {{"exitCode", 1}, {"reason", "Error"}}}};
      SetAt(pod, "status.containerStatuses",
            json::array{{{"name", "main"},
                         {"ready", true},
                         {"restartCount", 1},
                         {"lastState", last},
                         {"state", {{"running", {{"startedAt", "2026-01-01T00:00:09Z"}}}}}}});
    });
  });
}

void ScriptedController::SetReady(const std::string& sandbox, bool ready, const std::string& reason,
                                  const std::string& message) {
  server_.WithStore([&](ObjectStore&) {
    SetSandboxStatus(sandbox, true, ready, reason, message);
    Mirror(sandbox);
  });
}

bool ScriptedController::Rebind(const std::string& claim) {
  const std::string old = SandboxOf(claim);
  bool bound = false;
  server_.WithStore([&](ObjectStore& store) {
    const std::string pool = TextAt(Read(kClaims, claim), "spec.warmPoolRef.name");
    const std::string member = FreeMember(pool);
    store.Remove(kSandboxes, space_, old);
    store.Remove(kPods, space_, old);
    if (member.empty()) return;
    TakeMember(claim, member);
    SetClaimStatus(claim, member, true, "DependenciesReady", "Pod is Ready");
    bound = true;
  });
  return bound;
}

void ScriptedController::Expire(const std::string& claim) {
  server_.WithStore([&](ObjectStore& store) {
    SetClaimStatus(claim, "", false, "ClaimExpired", "Claim expired. Sandbox cleanup initiated.");
    store.Remove(kClaims, space_, claim);
  });
}

// What the garbage collector does once a claim is gone, or is going in the foreground.
void ScriptedController::CleanUp(const json::object& claim) {
  const std::string uid = TextAt(claim, "metadata.uid");
  const std::string name = TextAt(claim, "metadata.name");
  scripts_.erase(name);
  std::vector<std::string> pods;
  const json::value* notes = At(claim, "metadata.annotations");
  const bool hinted = notes != nullptr && notes->get_object().contains(kHint);
  for (auto it = promised_.begin(); it != promised_.end();) {
    // From the hint on a member is destroyed with its claim, also if it never became its own.
    if (it->second == name && hinted) pods.push_back(it->first);
    it = it->second == name ? promised_.erase(it) : std::next(it);
  }
  const auto sandboxes = store_->List(kSandboxes, space_, "", 0, "");
  for (const json::value& item : sandboxes.body.at("items").as_array()) {
    if (OwnerUid(item.get_object()) == uid) {
      pods.push_back(TextAt(item.get_object(), "metadata.name"));
    }
  }
  for (const std::string& sandbox : pods) {
    Change(kPods, sandbox,
           [](json::object& pod) { SetAt(pod, "metadata.deletionTimestamp", kOldTime); });
    store_->Remove(kSandboxes, space_, sandbox);
  }
  const auto leases = store_->List(kLeases, space_, "", 0, "");
  for (const json::value& item : leases.body.at("items").as_array()) {
    if (OwnerUid(item.get_object()) == uid) {
      store_->Remove(kLeases, space_, TextAt(item.get_object(), "metadata.name"));
    }
  }
  dying_pods_.insert(dying_pods_.end(), pods.begin(), pods.end());
  if (cleanup_) FinishCleanup();
}

void ScriptedController::FinishCleanup() {
  server_.WithStore([&](ObjectStore& store) {
    for (const std::string& pod : std::exchange(dying_pods_, {})) store.Remove(kPods, space_, pod);
    for (const std::string& claim : std::exchange(dying_claims_, {})) {
      store.Remove(kClaims, space_, claim);
    }
  });
}

}  // namespace sandbroker::testing

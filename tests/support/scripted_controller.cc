#include "tests/support/scripted_controller.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstdio>
#include <utility>

#include "lib/base/strings.h"
#include "tests/support/controller_objects.h"

namespace sandbroker::testing {

namespace json = boost::json;

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
  const auto add = [&](const char* name, const std::function<void()>& run) {
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
  const auto add = [&](const char* name, const std::function<void()>& run) {
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

}  // namespace sandbroker::testing

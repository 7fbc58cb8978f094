// What befalls sandboxes after they were bound, and what is left when their claim goes.
#include <boost/json/array.hpp>
#include <utility>

#include "tests/support/controller_objects.h"
#include "tests/support/scripted_controller.h"

namespace sandbroker::testing {

namespace json = boost::json;

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

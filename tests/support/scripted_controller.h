// The agent-sandbox controller (and kubelet) as a ScriptedApiServer's neighbour: it answers claims
// with the writes of the real one, in its order, and each write is let go by the test, or all of
// them at once. Any thread, except in the constructor's server.
//
//   ScriptedController controller(server, "space");
//   controller.AddPool("pool", 2);            // two ready members, with pods
//   controller.SetAutomatic(false);
//   ... a claim is posted ...
//   controller.StepTo("claim-name", "owned"); // the Sandbox is ours, the claim does not say so yet
//
// Steps of a warm claim: observed, hint, owned, ready, pod, first-ready, unknown, settled.
// Of a cold one: observed, sandbox, pod, not-ready, pending, running, ready.
// A way that fails ends in "refused" (or says nothing more after "pending" or "owned").
#pragma once

#include <boost/json/object.hpp>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/scripted_api_server.h"

namespace sandbroker::testing {

inline const kube::Resource kClaims{"extensions.agents.x-k8s.io", "v1beta1", "sandboxclaims"};
inline const kube::Resource kTemplates{"extensions.agents.x-k8s.io", "v1beta1", "sandboxtemplates"};
inline const kube::Resource kWarmPools{"extensions.agents.x-k8s.io", "v1beta1", "sandboxwarmpools"};
inline const kube::Resource kSandboxes{"agents.x-k8s.io", "v1beta1", "sandboxes"};
inline const kube::Resource kPods{"", "v1", "pods"};
inline const kube::Resource kLeases{"coordination.k8s.io", "v1", "leases"};
inline const kube::Resource kSecrets{"", "v1", "secrets"};

class ScriptedController {
 public:
  // How claims on a pool go.
  enum class Way {
    kNatural,         // warm while there is a member with an address, else cold
    kCold,            // cold all the same
    kHintRetracted,   // hint, conflict, another member: needs two members
    kMemberNotReady,  // bound to a member with an address that is never ready
    kNoStatus,        // observed, and nothing more
    kWarmPoolNotFound,
    kTemplateNotFound,
    kInvalidMetadata,
    kEnvRejected,
    kReconcilerError,
    kInvalidConfiguration,
    kUnschedulable,  // cold, pending for ever, the reason on the Sandbox
    kNeverReady,     // cold, running, never ready
  };

  ScriptedController(ScriptedApiServer& server, std::string space);
  ~ScriptedController();

  // Default: all steps of a claim as soon as it is there.
  void SetAutomatic(bool automatic);
  // Default: pods of a deleted claim go at once. Otherwise they stay, with a deletionTimestamp,
  // and a foreground deletion waits, until FinishCleanup.
  void SetCleanup(bool automatic);
  void FinishCleanup();
  // Taken members are replaced as soon as they are gone. Default: no.
  void SetRefill(bool refill);
  void SetWay(const std::string& pool, Way way);

  // A template of the same name, the pool, and its ready members.
  void AddPool(const std::string& pool, int members);
  // Answers the new member's name. Its pod has the same name and an address of its own out of
  // 127.0.1.0/24 and up, which are all this machine; `ready` false: no address yet.
  std::string AddMember(const std::string& pool, bool ready = true);

  // Steps to come, in order; empty when there are none.
  std::vector<std::string> Steps(const std::string& claim) const;
  // Waits, 20 s at most, until the controller has seen the claim.
  bool AwaitClaim(const std::string& claim) const;
  // Makes the next one; false: there is none.
  bool Step(const std::string& claim);
  // Up to that one, inclusive; false: there is none of that name.
  bool StepTo(const std::string& claim, const std::string& step);
  void Finish(const std::string& claim);

  // The Sandbox the claim is bound to, "" for none.
  std::string SandboxOf(const std::string& claim) const;

  // What befalls a bound one. `sandbox` is the name of the Sandbox and its pod.
  // The pod is being deleted; Ready stays True, as it does up to 1.0.10.
  void BeginPodDeletion(const std::string& sandbox);
  // Its container ended: exit code and the kubelet's reason ("OOMKilled", "Error", "Completed"), or
  // "Evicted" for the pod as a whole. Sandbox and claim show Finished and Ready=False.
  void EndPod(const std::string& sandbox, int exit_code, const std::string& reason);
  // The pod goes and another one comes, same name, ready; Finished is taken back.
  void ReplacePod(const std::string& sandbox);
  // The container started again inside the same pod.
  void RestartContainer(const std::string& sandbox);
  // Ready of Sandbox and claim, with that reason.
  void SetReady(const std::string& sandbox, bool ready, const std::string& reason,
                const std::string& message);
  // The Sandbox is deleted and the claim bound to another member in one write. False: none left.
  bool Rebind(const std::string& claim);
  // Its shutdownTime has come: ClaimExpired, then gone.
  void Expire(const std::string& claim);

 private:
  struct StepOf {
    std::string name;
    std::function<void()> run;
  };
  using Script = std::deque<StepOf>;

  // All below: on the server's thread.
  void OnChange(const ObjectStore::Change& change);
  void BeginClaim(const boost::json::object& claim);
  void Warm(const std::string& claim, const std::string& member, Script* script, bool ready);
  void Cold(const std::string& claim, Way way, Script* script);
  void Refused(const std::string& claim, const std::string& reason, const std::string& message,
               Script* script);
  std::string FreeMember(const std::string& pool, const std::string& except = "") const;
  void TakeMember(const std::string& claim, const std::string& member);
  std::string MakeMember(const std::string& pool, bool ready);
  void MakeSandbox(const std::string& name, boost::json::object metadata);
  void MakePod(const std::string& name, bool ready);
  void SetClaimStatus(const std::string& claim, const std::string& sandbox, bool ready,
                      const std::string& reason, const std::string& message);
  void SetSandboxStatus(const std::string& sandbox, bool addressed, bool ready,
                        const std::string& reason, const std::string& message);
  void Mirror(const std::string& sandbox);
  void CleanUp(const boost::json::object& claim);
  std::string NextAddress();
  void Change(const kube::Resource& resource, const std::string& name,
              const std::function<void(boost::json::object&)>& change);
  boost::json::object Read(const kube::Resource& resource, const std::string& name) const;

  ScriptedApiServer& server_;
  const std::string space_;
  ObjectStore* store_ = nullptr;
  bool automatic_ = true;
  bool cleanup_ = true;
  bool refill_ = false;
  int names_ = 0;
  int addresses_ = 0;
  std::map<std::string, Way> ways_;              // by pool
  std::map<std::string, Script> scripts_;        // by claim
  std::map<std::string, std::string> promised_;  // member -> claim, from the hint on
  std::vector<std::string> dying_pods_;
  std::vector<std::string> dying_claims_;  // foreground
};

}  // namespace sandbroker::testing

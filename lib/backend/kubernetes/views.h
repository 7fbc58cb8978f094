// What we read from the four kinds of objects that the informers tell of, and nothing else. Objects
// are hostile input: a field that is missing or wrong reads as empty, which never makes anything
// ready. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace sandbroker::kubernetes {

struct Condition {
  std::string status;  // "True", "False", "Unknown"; empty = there is no such condition
  std::string reason;
  std::string message;
  bool True() const { return status == "True"; }
  // Somebody has said something other than True.
  bool Not() const { return !status.empty() && !True(); }
};

struct Meta {
  std::string name;
  std::string uid;
  std::string resource_version;
  bool deleting = false;  // deletionTimestamp is set
};

struct ClaimView {
  Meta meta;
  bool ours = false;  // label managed-by
  std::string pool;   // our name of it
  std::string receipt_label;
  std::string holder;
  std::string promise;  // annotation, as it is
  std::string until;    // annotation, as it is
  std::string hint;     // the controller's: which sandbox comes
  std::string warm_pool;
  std::string shutdown;
  std::string sandbox;  // status: may outlive the sandbox
  Condition ready;
};

struct SandboxObject {
  Meta meta;
  std::string claim_uid;  // of the claim that owns it
  std::string warm_pool;  // of the pool that owns it
  Condition ready;
  Condition scheduled;
  bool suspended = false;  // wanted so
  std::vector<std::string> ips;
  std::string node;
  std::string launch;  // "warm" or "cold"
  bool Addressed() const { return ready.True() && !ips.empty() && !meta.deleting; }
};

// How a container ended.
struct Termination {
  bool there = false;
  std::string reason;  // "OOMKilled", "Error", "Completed", ...
  int64_t exit_code = 0;
};

struct ContainerView {
  std::string name;
  int64_t restarts = 0;
  std::string waiting_reason;
  std::string waiting_message;
  Termination ended;       // its present state
  Termination last_ended;  // before the present state
};

struct PodView {
  Meta meta;
  std::string sandbox_uid;  // of the sandbox that owns it
  std::string ip;
  std::string node;
  std::string phase;
  std::string reason;  // "Evicted", "NodeLost", ...
  std::string message;
  Condition scheduled;
  // Why it is being ended, e.g. by the eviction API or a taint; empty when nobody said.
  std::string disruption;
  std::string first_container;            // of the spec
  std::vector<ContainerView> containers;  // init containers last
  bool Over() const { return phase == "Failed" || phase == "Succeeded"; }
};

struct PoolView {
  Meta meta;
  int64_t wanted = 0;
  int64_t ready = 0;  // as it says itself
  std::string template_name;
};

ClaimView ViewClaim(const boost::json::object& object);
SandboxObject ViewSandbox(const boost::json::object& object);
PodView ViewPod(const boost::json::object& object);
PoolView ViewPool(const boost::json::object& object);

// The container that runs the agent: `name`, or the spec's first one. nullptr before it has a
// state.
const ContainerView* AgentContainer(const PodView& pod, const std::string& name);

}  // namespace sandbroker::kubernetes

// A cluster in memory for the Kubernetes backend: the API server's writes and reads over an
// ObjectStore, with faults and held answers; what changes goes to the backend's feeds, kind by
// kind, in an order that a test decides; and the controller's hand, moved by the test. Loop thread
// only.
#pragma once

#include <boost/json/object.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/async/scheduler.h"
#include "lib/kube/api.h"
#include "tests/support/object_store.h"

namespace sandbroker::testing {

class FakeCluster final : public kube::Api {
 public:
  static constexpr char kSpace[] = "boxes";

  explicit FakeCluster(Scheduler& scheduler);

  // Everything of that kind is told to it from now on, what is there already first. Several may
  // watch; what was held for others is not told to a new one.
  void Watch(const kube::Resource& resource, kube::InformerObserver* observer);
  void Unwatch() { observers_.clear(); }
  // Changes of a kind wait for Deliver.
  void HoldEvents(const std::string& plural) { held_kinds_.insert(plural); }
  void Deliver(const std::string& plural);

  enum class What {
    kRefuse,      // with `status`, no effect
    kNotSent,     // no effect, and that is known
    kLost,        // no effect, outcome unknown
    kLostAfter,   // takes effect, outcome unknown
    kHold,        // waits before its effect, until Release, its bound or its cancellation
    kHoldAnswer,  // takes effect at once, its answer waits
  };
  struct Fault {
    std::string verb = {};
    std::string plural = "sandboxclaims";
    What what = What::kRefuse;
    int status = 500;
    std::string reason = "InternalError";
    int times = 1;  // -1: always
  };
  void Script(Fault fault) { faults_.push_back(std::move(fault)); }
  void ClearFaults() { faults_.clear(); }
  // Lets what is held go on.
  void Release();

  // "create sandboxclaims", in order.
  const std::vector<std::string>& log() const { return log_; }
  size_t Count(const std::string& request) const;
  size_t Reads() const;
  void ClearLog() { log_.clear(); }

  ObjectStore& store() { return store_; }
  // Names of all claims.
  std::vector<std::string> Claims() const;
  boost::json::object Claim(const std::string& name) const;
  std::string UidOf(const kube::Resource& resource, const std::string& name) const;

  // The controller's and the kubelet's hand.
  void AddPool(const std::string& pool, int replicas);
  // A ready member with its pod.
  void AddMember(const std::string& pool, const std::string& name, const std::string& ip);
  void AddPod(const std::string& sandbox, const std::string& ip);
  void GiveMember(const std::string& claim, const std::string& member);
  // A cold sandbox of the claim's name, ready.
  void MakeCold(const std::string& claim, const std::string& ip);
  void ClaimSays(const std::string& claim, bool ready, const std::string& reason,
                 const std::string& message = "");
  void ChangeSandbox(const std::string& name, const std::function<void(boost::json::object&)>& fn);
  void ChangePod(const std::string& name, const std::function<void(boost::json::object&)>& fn);
  void ChangeClaim(const std::string& name, const std::function<void(boost::json::object&)>& fn);
  void RemovePod(const std::string& name);
  void RemoveSandbox(const std::string& name);
  void RemoveClaim(const std::string& name);

  Task<kube::Result> Create(kube::Resource resource, std::string space, boost::json::object object,
                            Duration bound, CancelToken cancel) override;
  Task<kube::Result> PatchJson(kube::Resource resource, std::string space, std::string name,
                               boost::json::array operations, Duration bound,
                               CancelToken cancel) override;
  Task<kube::Result> Replace(kube::Resource resource, std::string space, std::string name,
                             boost::json::object object, Duration bound,
                             CancelToken cancel) override;
  Task<kube::Result> Delete(kube::Resource resource, std::string space, std::string name,
                            kube::DeleteOptions options, Duration bound,
                            CancelToken cancel) override;
  Task<kube::Result> Get(kube::Resource resource, std::string space, std::string name,
                         Duration bound, CancelToken cancel) override;
  Task<kube::Result> List(kube::Resource resource, std::string space, std::string labels,
                          Duration bound, CancelToken cancel) override;
  std::optional<Duration> clock_offset() const override { return Duration(0); }

 private:
  using Effect = std::function<ObjectStore::Answer()>;
  Task<kube::Result> Serve(std::string verb, std::string plural, Effect effect, Duration bound,
                           CancelToken cancel);
  // False: its bound passed, or it was cancelled.
  Task<bool> Held(Duration bound, CancelToken cancel);
  std::optional<Fault> TakeFault(const std::string& verb, const std::string& plural);
  void OnChange(const ObjectStore::Change& change);
  void Tell(const std::string& plural);

  Scheduler& scheduler_;
  ObjectStore store_;
  std::map<std::string, std::vector<kube::InformerObserver*>> observers_;  // by plural
  std::map<std::string, std::deque<ObjectStore::Change>> events_;
  std::set<std::string> held_kinds_;
  std::vector<Fault> faults_;
  std::vector<OneShot<bool>> held_;
  std::vector<std::string> log_;
};

}  // namespace sandbroker::testing

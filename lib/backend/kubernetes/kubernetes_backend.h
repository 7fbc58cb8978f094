// The kubernetes backend: sandboxes as SandboxClaims of kubernetes-sigs/agent-sandbox. Every
// replica follows all claims of the broker through informers and serves them all; what is promised
// stands on the claims. Acquiring writes the claim and its lease and reads nothing. Loop thread
// only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/async/scheduler.h"
#include "lib/async/task_scope.h"
#include "lib/backend/kubernetes/cluster_cache.h"
#include "lib/backend/kubernetes/feed.h"
#include "lib/backend/kubernetes/held.h"
#include "lib/backend/kubernetes/incarnation.h"
#include "lib/backend/kubernetes/pool_gate.h"
#include "lib/backend/kubernetes/settings.h"
#include "lib/base/signing.h"
#include "lib/broker/backend.h"
#include "lib/kube/api.h"
#include "lib/obs/metrics.h"

namespace sandbroker::kubernetes {

struct BackendParts {
  Scheduler& scheduler;
  TaskScope& scope;
  kube::Api& api;
  broker::AgentDialer& dialer;
  obs::Metrics& metrics;
};

// Selects what the informer of claims is to follow.
std::string ClaimSelector();

class KubernetesBackend final : public broker::Backend {
 public:
  KubernetesBackend(BackendParts parts, KubernetesSettings settings);
  ~KubernetesBackend() override;

  // Observers for the four informers: of claims (ClaimSelector), and of all sandboxes, pods and
  // warm pools of the namespace.
  kube::InformerObserver& claims() { return *claims_feed_; }
  kube::InformerObserver& sandboxes() { return *sandboxes_feed_; }
  kube::InformerObserver& pods() { return *pods_feed_; }
  kube::InformerObserver& pools_feed() { return *pools_feed_; }

  // The broker proves itself to agents with it; its public part is in their templates. Before
  // Start.
  void UseSigningKey(std::shared_ptr<const SigningKey> key) { signing_key_ = std::move(key); }
  // Completes when the informers' first lists are in and what earlier brokers left is bound, or
  // known not to be at hand; the latter within adopt_bound.
  Task<void> Start();
  // Lets go of everything as it is, for other replicas to serve. Work in the scope ends soon after.
  void LetGo();
  // Why the views of the cluster are not kept up to date at present; empty when they are.
  std::string stale() const;

  std::string name() const override { return "kubernetes"; }
  std::string space() const override { return settings_.space; }
  std::vector<std::string> capabilities() const override;
  std::vector<std::string> pools() const override;
  void SetObserver(broker::BackendObserver* observer) override { observer_ = observer; }
  Task<absl::StatusOr<broker::Binding>> Acquire(const broker::AcquireSpec& spec,
                                                CancelToken cancel) override;
  Task<absl::Status> Remember(std::string uid, broker::Claim claim,
                              std::optional<broker::Claim> base) override;
  Task<absl::Status> Release(const std::string& uid) override;
  Task<absl::StatusOr<bool>> ReleaseUnchanged(std::string uid, broker::Claim as_read) override;
  Task<absl::Status> Seek(std::string name, std::string uid) override;
  Task<absl::Status> SeekReceipt(std::string key) override;
  Task<absl::StatusOr<broker::Claim>> Reread(std::string uid) override;
  std::vector<broker::PoolCapacity> Capacity() const override;
  void Drain() override;

 private:
  using HeldPtr = std::shared_ptr<Held>;
  using Dialed = broker::AgentDialer::Dialed;

  // kubernetes_backend.cc: what the informers say.
  void OnTouched(const ClusterCache::Touched& touched);
  void OnTouchedOne(const std::string& uid);
  void OnPodTouched(const Meta& meta, ClusterCache::Touched touched);
  void OnClaimSeen(const ClaimView& view);
  void OnBoundTouched(const HeldPtr& held);
  void PumpGates();
  void Publish() const;
  Seen Look(const Held& held) const;
  Verdict Judge(const Held& held) const;
  void Know(const HeldPtr& held, const std::string& uid);
  // Out of the maps; its link is closed.
  void Forget(const HeldPtr& held, const absl::Status& why);
  HeldPtr FindHeld(const std::string& uid) const;
  Task<kube::Result> GetClaim(std::string name, CancelToken cancel);

  // acquire.cc
  Task<absl::StatusOr<broker::Binding>> AcquireFrom(PoolGate* gate, broker::AcquireSpec spec,
                                                    CancelToken cancel);
  Task<absl::StatusOr<broker::Binding>> TakeClaim(HeldPtr held, Time deadline);
  HeldPtr NewHeld(PoolGate* gate, const broker::AcquireSpec& spec);
  Task<void> Post(HeldPtr held, boost::json::object object, Time deadline);
  Task<bool> MeetOwnClaim(HeldPtr held, bool* foreign);
  Task<Verdict> WaitReady(HeldPtr held, Time deadline);
  void CountIn(const HeldPtr& held);
  void GiveUp(const HeldPtr& held);
  Task<void> CleanUp(HeldPtr held);
  Task<void> LearnUnwanted(HeldPtr held, Time deadline);

  // meet.cc: dial, probe, relink.
  Task<absl::Status> Meet(HeldPtr held, Place place, Time deadline);
  Task<absl::StatusOr<Dialed>> Dial(HeldPtr held, bool again, Duration bound);
  void StartProbe(const HeldPtr& held);
  Task<absl::Status> AwaitProbe(HeldPtr held);
  void OnLinkLost(const HeldPtr& held, uint64_t link, const absl::Status& why);
  void Reconnect(const HeldPtr& held);
  Task<void> Relink(HeldPtr held);
  Task<bool> RelinkOnce(HeldPtr held);
  Task<void> RereadPod(HeldPtr held);
  // It served another life than the one that is there now. True: everything in it has ended.
  bool EndIfOver(const HeldPtr& held, const Seen& seen);
  void EndIncarnation(const HeldPtr& held, const std::string& cause);

  // adopt.cc
  HeldPtr BeginAdoption(const ClaimView& view);
  Task<void> Adopt(HeldPtr held);
  Task<bool> AdoptOnce(HeldPtr held);
  void Bind(const HeldPtr& held);
  Task<absl::Status> AdoptNow(ClaimView view, Time deadline);
  Task<absl::Status> WaitSettled(HeldPtr held, Time deadline);

  // remember.cc
  struct Write {
    broker::Claim base;
    broker::Claim ours;
    broker::Claim wanted;
  };
  Task<absl::Status> WriteClaim(HeldPtr held, broker::Claim claim,
                                std::optional<broker::Claim> base);
  // Empty: look again and try again.
  Task<std::optional<absl::Status>> TryWrite(HeldPtr held, Write* write);
  std::optional<absl::Status> Reconcile(const HeldPtr& held, Write* write, const Promise& stands,
                                        const ClaimView& view, bool refused);
  void Learn(const HeldPtr& held, const ClaimView& view);
  // Tells the observer if the promise is another one than it knows.
  void LearnPromise(const HeldPtr& held, const ClaimView& view);
  // The claim as it stands, and learnt. SANDBOX_GONE when it is gone; its holder is forgotten then.
  Task<absl::StatusOr<ClaimView>> ReadClaim(HeldPtr held);

  // release.cc
  Task<absl::Status> ReleaseOne(std::string uid);
  Task<absl::StatusOr<bool>> DeleteClaim(std::string name, std::string uid, std::string version,
                                         Duration bound);
  Task<absl::StatusOr<bool>> DeleteUnchanged(HeldPtr held, broker::Claim as_read);
  // It could not be deleted.
  void TakeBack(const HeldPtr& held, bool bound);
  Task<void> WaitPodGone(std::string pod_uid, Time deadline);
  Task<void> Pause(Duration duration);

  BackendParts parts_;
  const KubernetesSettings settings_;
  std::shared_ptr<const SigningKey> signing_key_;
  ClusterCache cache_;
  std::map<std::string, PoolGate> gates_;  // by our pool's name
  broker::BackendObserver* observer_ = nullptr;
  std::map<std::string, HeldPtr> by_name_;
  std::map<std::string, HeldPtr> by_uid_;
  std::map<std::string, std::string> by_pod_;  // uid of the pod served -> claim uid
  std::map<std::string, OneShot<bool>> pod_waiters_;
  std::unique_ptr<Feed> claims_feed_;
  std::unique_ptr<Feed> sandboxes_feed_;
  std::unique_ptr<Feed> pods_feed_;
  std::unique_ptr<Feed> pools_feed_;
  Bell started_;                      // a feed is in, or an adoption is settled
  Turns adoptions_;                   // dials of other brokers' sandboxes
  std::set<std::string> unreadable_;  // claims that were complained of
  bool draining_ = false;
  bool letting_go_ = false;
};

}  // namespace sandbroker::kubernetes

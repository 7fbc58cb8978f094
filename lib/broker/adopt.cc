// Where the broker's sandboxes come from and go to: made for a claim, taken over from a dead
// broker, left to the next one; and what the backend says of their links.
#include <functional>
#include <utility>

#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/broker/broker.h"
#include "lib/broker/sandbox.h"
#include "lib/obs/log.h"

namespace sandbroker::broker {

std::unique_ptr<Sandbox> Broker::MakeSandbox(Origin origin, const Claim& claim, Lease lease) {
  const std::string uid = origin.uid;
  Sandbox::Identity identity{uid,           claim.tenant, origin.pool, claim.labels,
                             claim.receipt, claim.token,  origin.name};
  Sandbox::Hooks hooks;
  hooks.over = [this, uid] { OnLeaseOver(uid); };
  hooks.changed = [this, uid] { OnSandboxChanged(uid); };
  hooks.keep = [this, uid](Claim kept, std::optional<Claim> base,
                           std::function<void(absl::Status)> done) {
    // Named, not a temporary: the coroutine's parameters are its own copies.
    const auto task = [](Broker* broker, std::string id, Claim what, std::optional<Claim> on,
                         std::function<void(absl::Status)> tell) -> Task<void> {
      absl::Status status =
          co_await broker->backend_.Remember(std::move(id), std::move(what), std::move(on));
      tell(std::move(status));
    };
    scope_.Spawn("keep claim", task(this, uid, std::move(kept), std::move(base), std::move(done)));
  };
  return std::make_unique<Sandbox>(scheduler_, metrics_, std::move(identity), lease,
                                   std::move(origin.link), std::move(hooks));
}

// The same for every look of this replica at this sandbox, another for other replicas.
LeaseSettings Broker::LeaseSettingsFor(const std::string& uid) const {
  LeaseSettings lease = settings_.lease;
  if (settings_.look_jitter <= Duration(0)) return lease;
  const uint64_t place = std::hash<std::string>()(settings_.replica_id + uid) % 1024;
  lease.margin += settings_.look_jitter * static_cast<int64_t>(place) / 1024;
  lease.others_look = true;
  return lease;
}

void Broker::OnAdopted(Adopted adopted) {
  const Claim& claim = adopted.claim;
  if (sandboxes_.count(adopted.uid) != 0) return OnClaimChanged(adopted.uid, claim);
  remembered_.erase(adopted.uid);
  Lease lease(claim.lease, LeaseSettingsFor(adopted.uid), claim.acquired, claim.until,
              claim.outage_ttl);
  auto sandbox = MakeSandbox({adopted.uid, adopted.pool, adopted.name, adopted.link}, claim, lease);
  Sandbox* const restored = sandbox.get();
  sandboxes_[adopted.uid] = std::move(sandbox);
  obs::Log(obs::Level::kInfo, "sandbox found again",
           {{"sandbox", adopted.uid}, {"pool", adopted.pool}});
  restored->Restore();
  SANDBROKER_FAIL_POINT("adopt.restored");
}

void Broker::OnClaimChanged(const std::string& uid, Claim claim) {
  const auto it = sandboxes_.find(uid);
  if (it != sandboxes_.end()) it->second->OnClaimChanged(claim);
}

void Broker::LetGo() {
  // Whoever waits for one of them looks into the map when it goes.
  const auto all = std::exchange(sandboxes_, {});
}

void Broker::Drain() {
  draining_ = true;
  sweep_timer_.reset();
  EndWatches();
  backend_.Drain();
}

size_t Broker::open_executions() const {
  size_t count = 0;
  for (const auto& [uid, sandbox] : sandboxes_) count += sandbox->attached();
  return count;
}

void Broker::FailOpenExecutions() {
  const absl::Status status = MakeError(Reason::kServerDraining, "this server is going away");
  for (const auto& [uid, sandbox] : sandboxes_) sandbox->FailAll(status);
}

void Broker::OnLinkLost(const std::string& uid, const absl::Status& why) {
  const auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) return;
  metrics_.CountLinkLost(std::string(absl::StatusCodeToString(why.code())));
  it->second->OnLinkLost();
}

void Broker::OnLinkRestored(const std::string& uid, std::shared_ptr<AgentLink> link) {
  const auto it = sandboxes_.find(uid);
  if (it != sandboxes_.end()) it->second->OnLinkRestored(std::move(link));
}

}  // namespace sandbroker::broker

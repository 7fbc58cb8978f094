// One acquired sandbox: whose it is, its lease, its link, and the calls that are attached to it. A
// lease moves by being written: what was promised is what the backend keeps. Owned by the Broker.
// Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/scheduler.h"
#include "lib/async/task.h"
#include "lib/base/status.h"
#include "lib/broker/agent_link.h"
#include "lib/broker/core/claim.h"
#include "lib/broker/core/lease.h"
#include "lib/broker/core/types.h"
#include "lib/broker/execution_relay.h"
#include "lib/obs/metrics.h"

namespace sandbroker::broker {

class Sandbox final : public RelayOwner {
 public:
  struct Identity {
    std::string uid;
    std::string tenant;
    std::string pool;
    Labels labels;
    std::string receipt = {};  // key; empty = acquired without a request_id
    std::string token = {};    // under which that receipt is bound
    std::string name = {};     // Binding::name
  };
  struct Hooks {
    // The lease has ended for certain; take the sandbox back.
    std::function<void()> over;
    // Keeps a claim beyond this process; `done` says whether it is. `base`: what was known to stand
    // there. Calls take effect in order.
    std::function<void(Claim, std::optional<Claim> base, std::function<void(absl::Status)> done)>
        keep;
    // What its holder sees of it has changed, or may be seen from now on.
    std::function<void()> changed = [] {};
  };
  // Begins in state kStarting: nobody may be told of it before Establish or Restore. `scheduler`
  // and `metrics` outlive it.
  Sandbox(Scheduler& scheduler, obs::Metrics& metrics, Identity identity, Lease lease,
          std::shared_ptr<AgentLink> link, Hooks hooks);
  ~Sandbox() override;

  const Identity& identity() const { return identity_; }
  const Lease& lease() const { return lease_; }
  const std::string& incarnation() const { return incarnation_; }
  SandboxState state() const { return state_; }
  AgentLink* link() const { return link_.get(); }
  std::shared_ptr<AgentLink> shared_link() const { return link_; }
  size_t attached() const { return relays_.size(); }

  // A new one: writes its claim down for the first time. SANDBOX_GONE if it ended meanwhile.
  Task<absl::Status> Establish();
  // One whose claim was found: a lease that ran out meanwhile gets its one ttl.
  void Restore();
  // Another try of the same request takes it over, under this token.
  Task<absl::Status> Restamp(std::string token);
  // Another replica has written it. The lease never moves back.
  void OnClaimChanged(const Claim& claim);
  // What the record says now that its lease is to end for good: whether it still is over, idle as
  // it was seen to be. If not, it is looked at again.
  bool StillOver(const Claim& record);
  // Its record could not be read, or its end not be brought about: again after a while.
  void LookLater();
  void EndLater();
  // What is known to stand there.
  Claim claim() const;
  // A call of the caller: keeps the lease ahead of now.
  void Touch();
  // The same; answers once what it finds on the lease is written.
  Task<absl::Status> Renew();
  absl::StatusOr<std::shared_ptr<Execution>> Start(agent::Start start, uint64_t window,
                                                   ExecutionObserver* observer);
  void OnLinkLost();
  void OnLinkRestored(std::shared_ptr<AgentLink> link);
  // It is being taken back, for this reason; the first one counts.
  void MarkReleasing(Reason reason, const std::string& cause);
  // It may be there still: whoever releases it again is not told that it is gone.
  void OnReleaseFailed() { release_failed_ = true; }
  bool release_under_way() const { return state_ == SandboxState::kReleasing && !release_failed_; }
  // It is not taken back after all: another replica's claim stands.
  void Spare();
  Reason release_reason() const { return release_reason_; }
  const std::string& release_cause() const { return release_cause_; }
  // Gone for certain: every attached call hears `ended`.
  void OnGone(const agent::Ended& ended);
  // Every attached call hears `status`; programs go on.
  void FailAll(const absl::Status& status);

  void OnRelayOver(ExecutionRelay* relay) override;
  void OnActivity() override { Touch(); }
  void OnOutput(uint64_t bytes) override;
  void OnInput(uint64_t bytes) override;
  void OnGapSeen() override { metrics_.CountGap(); }
  void OnExecutionEnded(const agent::Ended& ended) override;

 private:
  Claim ClaimWith(WallTime until, bool outage_ttl) const;
  Task<absl::Status> KeepNow();
  void Keep(const Claim& claim, std::function<void(absl::Status)> done);
  void Begin();
  void TakeOver(const Claim& claim);
  void ShowState();
  enum class Why { kActivity, kOutage };
  void WriteLease(WallTime until, Why why);
  void OnLeaseWritten(WallTime until, Why why, const absl::Status& status);
  void ArmLook();
  void LookAfterWrite();
  void OnLook();
  void Judge(Look look);
  void ArmWarning();
  void Warn();
  void PushBackstop();

  Scheduler& scheduler_;
  obs::Metrics& metrics_;
  Identity identity_;
  Lease lease_;
  std::shared_ptr<AgentLink> link_;
  const std::string incarnation_;
  Hooks hooks_;
  SandboxState state_ = SandboxState::kStarting;
  bool begun_ = false;      // its claim stands; somebody may have been told of it
  std::string kept_token_;  // as it stands in the claim
  Reason release_reason_ = Reason::kSandboxGone;
  std::string release_cause_;
  bool release_failed_ = false;
  std::map<ExecutionRelay*, std::shared_ptr<ExecutionRelay>> relays_;
  std::unique_ptr<Timer> look_timer_;            // wakes the look after the lease's end
  std::unique_ptr<Timer> warn_timer_;            // tells open streams that the hard end is near
  bool touched_ = false;                         // since the last look began
  bool writing_ = false;                         // the lease
  bool overtaken_ = false;                       // by another replica's write, since that began
  Time write_again_ = Time::min();               // not before, after a failure
  absl::Status write_error_;                     // of the last one
  std::vector<OneShot<absl::Status>> renewals_;  // wait for the present write
  std::vector<std::shared_ptr<ExecutionRelay>> late_;  // begin after it
  // Lets a late Query answer find that the sandbox is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandbroker::broker

// One acquired sandbox: whose it is, its lease, its link, and the calls that are attached to it.
// Owned by the Broker. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lib/async/scheduler.h"
#include "lib/base/status.h"
#include "lib/broker/agent_link.h"
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
  };
  // `over`: the lease has ended for certain; take the sandbox back. `scheduler` and `metrics`
  // outlive it.
  Sandbox(Scheduler& scheduler, obs::Metrics& metrics, Identity identity, const LeaseSpec& lease,
          const LeaseSettings& settings, std::shared_ptr<AgentLink> link,
          std::function<void()> over);
  ~Sandbox() override;

  const Identity& identity() const { return identity_; }
  const Lease& lease() const { return lease_; }
  const std::string& incarnation() const { return incarnation_; }
  SandboxState state() const { return state_; }
  AgentLink* link() const { return link_.get(); }
  size_t attached() const { return relays_.size(); }

  // A call of the caller: keeps the lease ahead of now.
  void Touch();
  absl::StatusOr<std::shared_ptr<Execution>> Start(agent::Start start, uint64_t window,
                                                   ExecutionObserver* observer);
  void OnLinkLost();
  void OnLinkRestored(std::shared_ptr<AgentLink> link);
  // It is being taken back, for this reason; the first one counts.
  void MarkReleasing(Reason reason, const std::string& cause);
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
  void ArmLook();
  void OnLook();
  void Judge(Look look);
  void ArmWarning();
  void Warn();
  void PushBackstop();

  Scheduler& scheduler_;
  obs::Metrics& metrics_;
  const Identity identity_;
  Lease lease_;
  std::shared_ptr<AgentLink> link_;
  const std::string incarnation_;
  std::function<void()> over_;
  SandboxState state_ = SandboxState::kReady;
  Reason release_reason_ = Reason::kSandboxGone;
  std::string release_cause_;
  std::map<ExecutionRelay*, std::shared_ptr<ExecutionRelay>> relays_;
  std::unique_ptr<Timer> look_timer_;  // wakes the look after the lease's end
  std::unique_ptr<Timer> warn_timer_;  // tells open streams that the hard end is near
  // Lets a late Query answer find that the sandbox is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandbroker::broker

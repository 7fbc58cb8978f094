// The backend that needs no cluster: sandboxes are bubblewrap process trees on this host, in pools
// from the configuration. Loop thread only, except Probe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/backend/local/pool.h"
#include "lib/backend/local/protections.h"
#include "lib/backend/local/settings.h"
#include "lib/broker/backend.h"

namespace sandbroker::local {

class LocalBackend final : public broker::Backend {
 public:
  // `settings` must be valid: every pool names a template that exists. The others outlive it.
  LocalBackend(Loop& loop, BlockingPool& blocking, TaskScope& scope, broker::AgentDialer& dialer,
               obs::Metrics& metrics, LocalSettings settings);

  // Whether this host can isolate and keep the templates' limits; blocks for some 10 ms. Before
  // Recover.
  absl::Status Probe();
  // For the log at start. After Probe.
  std::vector<Protection> Protections() const;
  // Finds the sandboxes of an earlier broker: those whose agents prove themselves go to the
  // observer or to their pool, the others are ended and their folders removed. Completes within a
  // bound. Before Start, and before anybody is served.
  Task<absl::Status> Recover();
  // Starts filling the pools.
  void Start();
  // Leaves all sandboxes to the next broker at Shutdown, whatever the settings say.
  void KeepSandboxes() { settings_.keep_sandboxes = true; }
  bool keeps_sandboxes() const { return settings_.keep_sandboxes; }
  // Ends every sandbox, or leaves it to the next broker; completes when none is left (each
  // bounded).
  Task<void> Shutdown();

  std::string name() const override { return "local"; }
  std::string space() const override { return "local"; }
  std::vector<std::string> capabilities() const override;
  std::vector<std::string> pools() const override;
  void SetObserver(broker::BackendObserver* observer) override;
  Task<absl::StatusOr<broker::Binding>> Acquire(const broker::AcquireSpec& spec,
                                                CancelToken cancel) override;
  Task<absl::Status> Remember(std::string uid, broker::Claim claim,
                              std::optional<broker::Claim> base) override;
  Task<absl::Status> Release(const std::string& uid) override;
  Task<absl::StatusOr<bool>> ReleaseUnchanged(std::string uid, broker::Claim as_read) override;
  // Its sandboxes are this broker's alone: what the broker does not know is gone.
  Task<absl::Status> Seek(std::string name, std::string uid) override;
  Task<absl::Status> SeekReceipt(std::string key) override;
  Task<absl::StatusOr<broker::Claim>> Reread(std::string uid) override;
  std::vector<broker::PoolCapacity> Capacity() const override;
  void Drain() override;

 private:
  broker::LeftoverAction Decide(const FoundSandbox& found) const;
  Task<void> EndLeftovers(std::map<std::string, uid_t> uids);
  // As its record has it, or is about to. SANDBOX_GONE.
  absl::StatusOr<broker::Claim> ClaimOf(const std::string& uid) const;
  // The folder and the cgroup. Blocks; any thread.
  void RemoveSandbox(const std::string& uid);

  LocalSettings settings_;  // as given, until Probe adds what the host offers
  BlockingPool& blocking_;
  TaskScope& scope_;
  RecordFiles files_;
  RecordKeeper records_;
  UidRange uids_;
  std::map<std::string, std::unique_ptr<Pool>> pools_;  // by name
};

}  // namespace sandbroker::local

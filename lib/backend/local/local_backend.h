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
  // Start.
  absl::Status Probe();
  // For the log at start. After Probe.
  std::vector<Protection> Protections() const;
  // Makes the state directory's folders and starts filling the pools.
  absl::Status Start();
  // Ends every sandbox; completes when none is left (each bounded).
  Task<void> Shutdown();

  std::string name() const override { return "local"; }
  std::vector<std::string> capabilities() const override;
  std::vector<std::string> pools() const override;
  void SetObserver(broker::BackendObserver* observer) override;
  Task<absl::StatusOr<broker::Binding>> Acquire(const broker::AcquireSpec& spec,
                                                CancelToken cancel) override;
  Task<absl::Status> Release(const std::string& uid) override;
  std::vector<broker::PoolCapacity> Capacity() const override;
  void Drain() override;

 private:
  LocalSettings settings_;  // as given, until Probe adds what the host offers
  UidRange uids_;
  std::map<std::string, std::unique_ptr<Pool>> pools_;  // by name
};

}  // namespace sandbroker::local

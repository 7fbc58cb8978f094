// The kubernetes backend with its API client, the informers that feed it, receipts on the cluster
// and the keys that all replicas share. See engine.h. Sandboxes always stay when it ends: other
// replicas serve them, or their backstop takes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/async/shifted_scheduler.h"
#include "lib/backend/kubernetes/kubernetes_backend.h"
#include "lib/backend/kubernetes/lease_receipts.h"
#include "lib/backend/kubernetes/secret_keys.h"
#include "lib/kube/client.h"
#include "lib/kube/informer.h"
#include "server/app/engine.h"

namespace sandbroker::app {

class KubernetesEngine final : public Engine {
 public:
  explicit KubernetesEngine(const EngineParts& parts);

  absl::Status Prepare() override;
  Task<absl::Status> Recover() override;
  std::string handle_key() const override { return handle_key_; }
  void Start() override {}
  void KeepSandboxes() override {}
  bool keeps_sandboxes() const override { return true; }
  Task<void> Shutdown() override;
  Scheduler& scheduler() override { return clock_; }
  broker::Backend& backend() override { return backend_; }
  broker::ReceiptStore& receipts() override { return receipts_; }
  std::string isolation() const override;
  std::vector<local::Protection> protections() const override { return {}; }

 private:
  void Follow(kube::Resource resource, std::string labels, kube::InformerObserver& observer);
  kubernetes::KubernetesSettings SettingsOf(const config::Config& config);

  const config::Config& config_;
  TaskScope& scope_;
  const absl::StatusOr<kube::Access> access_;
  const std::string space_;
  kube::Client client_;
  ShiftedScheduler clock_;  // the API server's
  std::string handle_key_;
  kubernetes::KubernetesBackend backend_;
  kubernetes::LeaseReceipts receipts_;
  std::vector<std::unique_ptr<kube::Informer>> informers_;
};

}  // namespace sandbroker::app

// The local backend and its receipts in the state directory. See engine.h.
#pragma once

#include <string>
#include <vector>

#include "lib/backend/local/local_backend.h"
#include "lib/backend/local/receipt_files.h"
#include "server/app/engine.h"

namespace sandbroker::app {

class LocalEngine final : public Engine {
 public:
  explicit LocalEngine(const EngineParts& parts);

  absl::Status Prepare() override;
  Task<absl::Status> Recover() override { return backend_.Recover(); }
  std::string handle_key() const override { return state_.key(); }
  void Start() override { backend_.Start(); }
  void KeepSandboxes() override { backend_.KeepSandboxes(); }
  bool keeps_sandboxes() const override { return backend_.keeps_sandboxes(); }
  Task<void> Shutdown() override { return backend_.Shutdown(); }
  Scheduler& scheduler() override { return loop_; }
  broker::Backend& backend() override { return backend_; }
  broker::ReceiptStore& receipts() override { return receipts_; }
  std::string isolation() const override;
  std::vector<local::Protection> protections() const override { return backend_.Protections(); }

 private:
  const config::Config& config_;
  const StateDir& state_;
  Loop& loop_;
  local::LocalBackend backend_;
  local::ReceiptFiles receipt_files_;
  local::FileReceiptStore receipts_;
};

}  // namespace sandbroker::app

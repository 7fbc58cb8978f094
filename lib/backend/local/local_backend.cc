#include "lib/backend/local/local_backend.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/backend/local/cgroups.h"
#include "lib/backend/local/host_facts.h"
#include "lib/backend/local/limits.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::local {
namespace {

Task<absl::StatusOr<broker::Binding>> UnknownPool(std::string pool) {
  co_return MakeError(Reason::kPoolNotFound, StrCat("no pool '", CEscape(pool), "'"));
}

Task<absl::Status> AlreadyGone() { co_return absl::OkStatus(); }

}  // namespace

LocalBackend::LocalBackend(Loop& loop, BlockingPool& blocking, TaskScope& scope,
                           broker::AgentDialer& dialer, obs::Metrics& metrics,
                           LocalSettings settings)
    : settings_(std::move(settings)),
      uids_(settings_.uid_first, settings_.uid_count, geteuid() == 0) {
  const PoolParts parts{loop, blocking, scope, dialer, metrics, settings_, uids_};
  for (const PoolSettings& pool : settings_.pools) {
    pools_.emplace(pool.name, std::make_unique<Pool>(parts, pool));
  }
}

absl::Status LocalBackend::Probe() {
  settings_.cgroups = PrepareCgroups(settings_);
  const LimitFindings findings = CheckLimits(settings_, ReadHostFacts());
  for (const std::string& warning : findings.warned) {
    obs::Log(obs::Level::kWarning, "a limit is not enforced", {{"why", warning}});
  }
  if (!findings.refused.empty()) {
    return MakeError(Reason::kIsolationUnavailable,
                     StrCat(findings.refused[0], "; or set limits: advisory"));
  }
  return ProbeIsolation(settings_);
}

std::vector<Protection> LocalBackend::Protections() const {
  return DescribeProtections(settings_, ReadHostFacts(), absl::OkStatus());
}

absl::Status LocalBackend::Start() {
  const std::string directory = StrCat(settings_.state_dir, "/sandboxes");
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(StrCat("mkdir ", directory, ": ", std::strerror(errno)));
  }
  for (auto& [name, pool] : pools_) pool->Start();
  return absl::OkStatus();
}

Task<void> LocalBackend::Shutdown() {
  for (auto& [name, pool] : pools_) co_await pool->Shutdown();
  RemoveCgroups(settings_.cgroups);
}

std::vector<std::string> LocalBackend::capabilities() const {
  std::vector<std::string> names = {"task", "request_id", "labels", "env"};
  if (geteuid() == 0) names.emplace_back("uid_per_sandbox");
  return names;
}

std::vector<std::string> LocalBackend::pools() const {
  std::vector<std::string> names;
  for (const auto& [name, pool] : pools_) names.push_back(name);
  return names;
}

void LocalBackend::SetObserver(broker::BackendObserver* observer) {
  for (auto& [name, pool] : pools_) pool->SetObserver(observer);
}

Task<absl::StatusOr<broker::Binding>> LocalBackend::Acquire(const broker::AcquireSpec& spec,
                                                            CancelToken cancel) {
  const auto it = pools_.find(spec.pool);
  if (it == pools_.end()) return UnknownPool(spec.pool);
  return it->second->Acquire(spec, std::move(cancel));
}

Task<absl::Status> LocalBackend::Release(const std::string& uid) {
  for (auto& [name, pool] : pools_) {
    if (pool->Has(uid)) return pool->Release(uid);
  }
  return AlreadyGone();
}

std::vector<broker::PoolCapacity> LocalBackend::Capacity() const {
  std::vector<broker::PoolCapacity> all;
  for (const auto& [name, pool] : pools_) all.push_back(pool->Capacity());
  return all;
}

void LocalBackend::Drain() {
  for (auto& [name, pool] : pools_) pool->Drain();
}

}  // namespace sandbroker::local

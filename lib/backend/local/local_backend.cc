#include "lib/backend/local/local_backend.h"

#include <signal.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "lib/async/for_each.h"
#include "lib/backend/local/cgroups.h"
#include "lib/backend/local/host_facts.h"
#include "lib/backend/local/leftovers.h"
#include "lib/backend/local/limits.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::local {
namespace {

Task<absl::StatusOr<broker::Binding>> UnknownPool(std::string pool) {
  co_return MakeError(Reason::kPoolNotFound, StrCat("no pool '", CEscape(pool), "'"));
}

Task<absl::Status> NothingToDo() { co_return absl::OkStatus(); }

Task<absl::Status> NoSuchSandbox() {
  co_return MakeError(Reason::kSandboxGone, "the sandbox has ended");
}

// Agents of an earlier broker that are asked for their proof at the same time.
constexpr size_t kDialsAtOnce = 64;
constexpr Duration kEndBound = std::chrono::seconds(10);

}  // namespace

LocalBackend::LocalBackend(Loop& loop, BlockingPool& blocking, TaskScope& scope,
                           broker::AgentDialer& dialer, obs::Metrics& metrics,
                           LocalSettings settings)
    : settings_(std::move(settings)),
      blocking_(blocking),
      scope_(scope),
      files_(SandboxesIn(settings_.state_dir)),
      records_(files_, blocking, scope, [this](const std::string& uid) { RemoveSandbox(uid); }),
      uids_(settings_.uid_first, settings_.uid_count, geteuid() == 0) {
  const PoolParts parts{loop, blocking, scope, dialer, metrics, settings_, uids_, records_};
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

broker::LeftoverAction LocalBackend::Decide(const FoundSandbox& found) const {
  broker::Leftover facts;
  facts.alive = found.alive;
  if (found.record) {
    const auto pool = pools_.find(found.record->pool);
    facts.phase = found.record->phase;
    facts.pool_served = pool != pools_.end();
    facts.made_alike = facts.pool_served && pool->second->MadeAlike(*found.record);
  }
  const broker::LeftoverAction action = broker::DecideLeftover(facts);
  // Without its agent's own process there is nobody who could prove anything.
  const bool dial = action == broker::LeftoverAction::kDial;
  return dial && !found.agent.valid() ? broker::LeftoverAction::kEnd : action;
}

Task<absl::Status> LocalBackend::Recover() {
  const absl::Status made = files_.MakeDirectory();
  if (!made.ok()) co_return made;
  const auto look = [this] { return FindLeftovers(files_); };
  absl::StatusOr<std::vector<FoundSandbox>> looked = co_await blocking_.Run(look);
  if (!looked.ok()) co_return looked.status();
  std::vector<FoundSandbox> dial;
  std::map<std::string, uid_t> end;  // and the host uids they have
  for (FoundSandbox& found : *looked) {
    const uid_t host_uid = found.record ? found.record->host_uid : 0;
    if (!found.record) {
      obs::Log(obs::Level::kError, "a sandbox of an earlier broker has no usable record",
               {{"sandbox", CEscape(found.uid)}, {"why", found.complaint}});
    }
    if (Decide(found) == broker::LeftoverAction::kDial && uids_.TakeThis(host_uid)) {
      dial.push_back(std::move(found));
    } else {
      if (found.agent.valid()) SignalProcess(found.agent.get(), SIGKILL);
      end.emplace(found.uid, host_uid);
    }
  }
  SANDBROKER_FAIL_POINT("adopt.looked");
  co_await EndLeftovers(std::move(end));
  const auto adopt = [this, &dial](size_t i) {
    return pools_.at(dial[i].record->pool)->Adopt(std::move(dial[i]));
  };
  co_await ForEach(scope_, dial.size(), kDialsAtOnce, adopt);
  SANDBROKER_FAIL_POINT("adopt.done");
  co_return absl::OkStatus();
}

// Those with nothing alive are only removed. One that can't be ended keeps its folder and its uid.
Task<void> LocalBackend::EndLeftovers(std::map<std::string, uid_t> uids) {
  if (uids.empty()) co_return;
  std::set<std::string> names;
  for (const auto& [uid, host_uid] : uids) names.insert(uid);
  const auto work = [this, names] {
    std::set<std::string> left = EndMarked(names, kEndBound);
    for (const std::string& uid : names) {
      if (left.count(uid) == 0) RemoveSandbox(uid);
    }
    return left;
  };
  const absl::StatusOr<std::set<std::string>> left = co_await blocking_.Run(work);
  for (const auto& [uid, host_uid] : uids) {
    const bool stays = !left.ok() || left->count(uid) != 0;
    if (stays) uids_.TakeThis(host_uid);
    obs::Log(stays ? obs::Level::kError : obs::Level::kInfo,
             stays ? "a leftover sandbox could not be ended" : "a leftover sandbox was removed",
             {{"sandbox", CEscape(uid)}});
  }
}

void LocalBackend::RemoveSandbox(const std::string& uid) {
  RemoveSandboxCgroup(settings_.cgroups, uid);
  files_.Remove(uid);
}

void LocalBackend::Start() {
  for (auto& [name, pool] : pools_) pool->Start();
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

// Nobody else writes, so nothing need be compared.
Task<absl::Status> LocalBackend::Remember(std::string uid, broker::Claim claim,
                                          std::optional<broker::Claim>) {
  for (auto& [name, pool] : pools_) {
    if (pool->Has(uid)) return pool->Remember(std::move(uid), std::move(claim));
  }
  return NoSuchSandbox();
}

Task<absl::Status> LocalBackend::Release(const std::string& uid) {
  for (auto& [name, pool] : pools_) {
    if (pool->Has(uid)) return pool->Release(uid);
  }
  return NothingToDo();
}

absl::StatusOr<broker::Claim> LocalBackend::ClaimOf(const std::string& uid) const {
  for (const auto& [name, pool] : pools_) {
    const broker::Claim* claim = pool->ClaimOf(uid);
    if (claim != nullptr) return *claim;
  }
  return MakeError(Reason::kSandboxGone, "the sandbox has ended");
}

Task<absl::StatusOr<bool>> LocalBackend::ReleaseUnchanged(std::string uid, broker::Claim as_read) {
  const auto claim = ClaimOf(uid);
  if (claim.ok() && !broker::SamePromise(*claim, as_read)) co_return false;
  const absl::Status status = co_await Release(uid);
  if (!status.ok()) co_return status;
  co_return true;
}

Task<absl::Status> LocalBackend::Seek(std::string, std::string) { return NothingToDo(); }

Task<absl::Status> LocalBackend::SeekReceipt(std::string) { return NothingToDo(); }

Task<absl::StatusOr<broker::Claim>> LocalBackend::Reread(std::string uid) {
  co_return ClaimOf(uid);
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

// How a sandbox ends for the broker: released, matched by a selector, its lease over, or by itself.
#include <utility>

#include "lib/async/for_each.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/broker/broker.h"
#include "lib/broker/ended.h"
#include "lib/broker/sandbox.h"
#include "lib/obs/log.h"

namespace sandbroker::broker {
namespace {

// Sandboxes that one ReleaseTaskSandboxes ends at the same time.
constexpr size_t kReleasesAtOnce = 16;

}  // namespace

Task<absl::StatusOr<Released>> Broker::Release(Principal who, std::string text) {
  const auto handle = OpenHandle(who, text);
  if (!handle.ok()) co_return handle.status();
  const absl::Status settled = co_await Settle(who, text, CancelToken());
  if (!settled.ok()) co_return settled;
  const auto it = sandboxes_.find(handle->uid);
  Released released;
  const bool under_way = it != sandboxes_.end() && it->second->release_under_way();
  if (it == sandboxes_.end() || under_way) {
    released.already_gone = true;
    co_return released;
  }
  SANDBROKER_FAIL_POINT("release.begin");
  released.ended_executions = co_await Leftovers(handle->uid);
  SANDBROKER_FAIL_POINT("release.before_kill");
  const std::string cause = "released";
  const absl::Status status = co_await Destroy(handle->uid, Reason::kSandboxGone, cause);
  if (!status.ok()) co_return status;
  SANDBROKER_FAIL_POINT("release.before_answer");
  co_return released;
}

Task<std::vector<std::string>> Broker::Leftovers(std::string uid) {
  const auto it = sandboxes_.find(uid);
  std::vector<std::string> ids;
  if (it == sandboxes_.end() || it->second->link() == nullptr || !it->second->link()->open()) {
    co_return ids;
  }
  it->second->MarkReleasing(Reason::kSandboxGone, "released");
  OneShot<absl::StatusOr<agent::Report>> answer;
  it->second->link()->Query([answer](auto report) { answer.Set(std::move(report)); });
  const auto timer = scheduler_.After(settings_.leftovers_bound, [answer] {
    answer.Set(absl::DeadlineExceededError("the agent did not answer"));
  });
  const auto report = co_await answer.Wait();
  if (!report.ok()) co_return ids;
  ids.assign(report->running_ids().begin(), report->running_ids().end());
  // Those have an end of their own; what they left running ends now all the same.
  ids.insert(ids.end(), report->leftover_ids().begin(), report->leftover_ids().end());
  co_return ids;
}

Task<absl::StatusOr<std::vector<ReleaseItem>>> Broker::ReleaseMatching(
    Principal who, LabelSelector selector, std::optional<WallTime> acquired_before, bool dry_run) {
  std::vector<std::string> handles;
  for (const auto& [uid, sandbox] : sandboxes_) {
    if (sandbox->identity().tenant != who.tenant) continue;
    if (sandbox->state() == SandboxState::kReleasing) continue;
    if (sandbox->state() == SandboxState::kStarting) continue;  // not promised to anybody yet
    if (!selector.Matches(sandbox->identity().labels)) continue;
    if (acquired_before && sandbox->lease().acquired() >= *acquired_before) continue;
    handles.push_back(View(*sandbox).handle);
  }
  std::vector<ReleaseItem> items;
  items.reserve(handles.size());
  for (const std::string& handle : handles) items.push_back({handle, absl::OkStatus()});
  if (dry_run) co_return items;
  const auto one = [this, &who, &items](size_t i) -> Task<void> {
    const absl::StatusOr<Released> released = co_await Release(who, items[i].handle);
    items[i].status = released.status();
  };
  co_await ForEach(scope_, items.size(), kReleasesAtOnce, one);
  co_return items;
}

Task<absl::Status> Broker::Destroy(std::string uid, Reason reason, std::string cause) {
  const auto it = sandboxes_.find(uid);
  if (it != sandboxes_.end()) it->second->MarkReleasing(reason, cause);
  const absl::Status status = co_await backend_.Release(uid);
  if (status.ok()) Gone(uid, reason, cause);
  const auto left = sandboxes_.find(uid);
  if (left != sandboxes_.end()) left->second->OnReleaseFailed();
  co_return status;
}

void Broker::Gone(const std::string& uid, Reason reason, const std::string& cause) {
  const auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) return;
  const std::unique_ptr<Sandbox> sandbox = std::move(it->second);
  sandboxes_.erase(it);
  TellRemoved(*sandbox, reason, cause);
  Keep(uid, reason, cause);
  // A cause may be the backend's own words, which are no label.
  const bool ours = sandbox->state() == SandboxState::kReleasing;
  const bool elsewhere = cause == kDeletedElsewhere || reason == Reason::kLeaseExpired;
  metrics_.CountRelease(ours ? cause : elsewhere ? std::string(kDeletedElsewhere) : "agent_lost");
  agent::Ended ended;
  if (reason == Reason::kLeaseExpired) {
    ended = LeaseExpiredEnd();
  } else if (ours || elsewhere) {
    ended.mutable_sandbox_gone()->set_cause(cause);
  } else {
    ended = AgentLostEnd(cause);
  }
  sandbox->OnGone(ended);
  Wake(&settling_, uid, absl::OkStatus());
}

void Broker::Keep(const std::string& uid, Reason reason, const std::string& cause) {
  if (!remembered_.insert_or_assign(uid, Memory{reason, cause}).second) return;
  remembered_order_.push_back(uid);
  while (remembered_order_.size() > settings_.max_remembered) {
    remembered_.erase(remembered_order_.front());
    remembered_order_.pop_front();
  }
}

void Broker::OnSandboxGone(const std::string& uid, const std::string& cause) {
  const auto it = sandboxes_.find(uid);
  if (it == sandboxes_.end()) return;
  if (it->second->state() == SandboxState::kReleasing) {
    // Whoever releases it may have given up waiting.
    const std::string why = it->second->release_cause();
    return Gone(uid, it->second->release_reason(), why);
  }
  if (cause == kDeletedElsewhere && it->second->lease().Over(scheduler_.WallNow())) {
    return Gone(uid, Reason::kLeaseExpired, "lease_expired");
  }
  obs::Log(obs::Level::kWarning, "sandbox ended by itself", {{"sandbox", uid}, {"cause", cause}});
  Gone(uid, Reason::kSandboxGone, cause);
}

}  // namespace sandbroker::broker

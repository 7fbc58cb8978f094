// Pool: how its sandboxes end, one by one or all at once.
#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/backend/local/pool.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/obs/log.h"

namespace sandbroker::local {
namespace {

constexpr Duration kReleaseBound = std::chrono::seconds(30);
// For programs of sandboxes that end with the broker: the agent gives them 2 s of these.
constexpr Duration kStopGrace = std::chrono::seconds(4);

}  // namespace

absl::Status Pool::DrainingError() {
  return MakeError(Reason::kServerDraining, "this server is going away; try another");
}

void Pool::Forget(const std::string& uid) {
  const auto it = members_.find(uid);
  const uid_t host_uid = it->second.record.host_uid;
  members_.erase(it);
  ++removing_;
  parts_.scope.Spawn("remove sandbox folder", Remove(uid, host_uid));
  Publish();
}

// Only when no record names it any more is the uid free for another sandbox.
Task<void> Pool::Remove(std::string uid, uid_t host_uid) {
  co_await parts_.records.Remove(std::move(uid));
  SANDBROKER_FAIL_POINT("release.record_removed");
  parts_.uids.Free(host_uid);
  if (--removing_ == 0) std::exchange(removed_, OneShot<bool>()).Set(true);
  Refill();
}

Task<void> Pool::WaitForRemovals() {
  while (removing_ > 0) {
    const OneShot<bool> removed = removed_;
    co_await removed.Wait();
  }
}

Task<absl::Status> Pool::Release(std::string uid) {
  const auto it = members_.find(uid);
  if (it == members_.end()) co_return absl::OkStatus();
  it->second.use = Use::kEnding;
  co_return co_await End(std::move(uid), "released");
}

Task<absl::Status> Pool::End(std::string uid, std::string why) {
  Member& member = members_.at(uid);
  OneShot<bool> gone;
  member.gone_waiters.push_back(gone);
  const std::shared_ptr<LocalSandbox> sandbox = member.sandbox;
  // One that is being stopped keeps its grace.
  if (sandbox) sandbox->Kill(why);
  const auto timer = parts_.loop.After(kReleaseBound, [gone] { gone.Set(false); });
  const bool ended = co_await gone.Wait();
  if (!ended) {
    co_return MakeError(Reason::kNotReady, "the sandbox was killed and has not ended yet");
  }
  co_return absl::OkStatus();
}

void Pool::Drain() {
  draining_ = true;
  backoff_timer_.reset();
  alive_timer_.reset();
  for (const auto ticket : queue_.Clear()) {
    waiters_.extract(ticket).mapped().Set(DrainingError());
  }
  ArmExpiry();
  const bool keep = parts_.settings.keep_sandboxes;
  if (!keep) ready_.clear();
  for (auto& [uid, member] : members_) {
    if (member.use == Use::kClaimed || !member.sandbox) continue;
    if (keep && member.use == Use::kReady) continue;
    member.use = Use::kEnding;
    parts_.loop.Post([sandbox = member.sandbox] { sandbox->Kill("the broker is stopping"); });
  }
}

Task<void> Pool::Shutdown() {
  Drain();
  if (parts_.settings.keep_sandboxes) LetGoOfKept();
  // All at once; the waits below then run beside each other.
  std::vector<std::shared_ptr<LocalSandbox>> all;
  for (const auto& [uid, member] : members_) {
    if (member.sandbox) all.push_back(member.sandbox);
  }
  for (const auto& sandbox : all) sandbox->Stop("the broker is stopping", kStopGrace);
  while (!members_.empty()) {
    // Claimed ones are reported to the broker, which holds timers for them.
    std::string uid = members_.begin()->first;
    std::string why = "the broker is stopping";
    const absl::Status status = co_await End(std::move(uid), std::move(why));
    if (!status.ok()) co_return;
  }
  co_await WaitForRemovals();
}

// Their records stand; their agents hear from the next broker, or end at their backstop.
void Pool::LetGoOfKept() {
  ready_.clear();
  for (auto it = members_.begin(); it != members_.end();) {
    const bool kept = it->second.use == Use::kClaimed || it->second.use == Use::kReady;
    if (kept) it->second.sandbox->Abandon();
    it = kept ? members_.erase(it) : std::next(it);
  }
}

}  // namespace sandbroker::local

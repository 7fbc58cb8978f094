// How the lease of a sandbox ends (docs/protocols.md C): looked at, read again, and destroyed only
// if its record still says so. Calls that come meanwhile wait for the outcome (settle.cc).
#include <utility>

#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/broker/broker.h"
#include "lib/broker/sandbox.h"
#include "lib/obs/log.h"

namespace sandbroker::broker {

void Broker::OnLeaseOver(const std::string& uid) {
  SANDBROKER_FAIL_POINT("lease.over");
  scope_.Spawn("lease over", TakeBack(uid));
}

Task<void> Broker::TakeBack(std::string uid) {
  auto it = sandboxes_.find(uid);
  // Being released, unless it is this that is tried again.
  const bool again = settling_.count(uid) != 0;
  if (it == sandboxes_.end()) co_return;
  if (!again && it->second->state() == SandboxState::kReleasing) co_return;
  settling_[uid];
  // Nothing moves the end of max_lifetime, so nothing need be read.
  const bool hard = it->second->lease().HardOver(scheduler_.WallNow());
  absl::StatusOr<Claim> record = it->second->claim();
  if (!hard) record = co_await backend_.Reread(uid);
  it = sandboxes_.find(uid);
  if (ReasonOf(record.status()) == Reason::kSandboxGone) {
    // Another replica was faster, or it ended itself.
    const std::string cause = "lease_expired";
    Gone(uid, Reason::kLeaseExpired, cause);
  } else if (it != sandboxes_.end() && !record.ok()) {
    CannotTakeBack(uid, record.status());
    // If a destruction of unknown outcome went before, nobody can say yet what calls are to hear.
    if (it->second->state() == SandboxState::kReleasing) co_return it->second->EndLater();
    it->second->LookLater();
  } else if (it != sandboxes_.end() && (hard || it->second->StillOver(*record))) {
    obs::Log(obs::Level::kInfo, "lease ended, taking the sandbox back", {{"sandbox", uid}});
    const std::string cause = "lease_expired";
    const auto taken = co_await DestroyUnchanged(uid, *record, Reason::kLeaseExpired, cause);
    it = sandboxes_.find(uid);
    if (!taken.ok() && it != sandboxes_.end()) {
      CannotTakeBack(uid, taken.status());
      co_return it->second->EndLater();
    }
  } else if (it != sandboxes_.end()) {
    it->second->Spare();  // if an earlier try has marked it
  }
  Wake(&settling_, uid, absl::OkStatus());
}

void Broker::CannotTakeBack(const std::string& uid, const absl::Status& why) {
  obs::Log(obs::Level::kWarning, "a sandbox whose lease ended could not be taken back yet",
           {{"sandbox", uid}, {"why", MessageOf(why)}});
}

Task<absl::StatusOr<bool>> Broker::DestroyUnchanged(std::string uid, Claim as_read, Reason reason,
                                                    std::string cause) {
  auto it = sandboxes_.find(uid);
  if (it != sandboxes_.end()) it->second->MarkReleasing(reason, cause);
  absl::StatusOr<bool> destroyed = co_await backend_.ReleaseUnchanged(uid, std::move(as_read));
  if (!destroyed.ok()) co_return destroyed;
  if (*destroyed) Gone(uid, reason, cause);
  it = sandboxes_.find(uid);
  if (it != sandboxes_.end()) it->second->Spare();
  co_return destroyed;
}

}  // namespace sandbroker::broker

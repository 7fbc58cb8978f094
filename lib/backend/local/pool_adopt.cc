// Pool: taking in what an earlier broker left.
#include <utility>

#include "lib/backend/local/pool.h"
#include "lib/backend/local/record_files.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/obs/log.h"

namespace sandbroker::local {

Task<void> Pool::Adopt(FoundSandbox found) {
  const std::string uid = found.uid;
  Launched launched;
  launched.secret = found.record->secret;
  launched.boot_id = found.record->boot_id;
  launched.agent_pid = found.record->agent.pid;
  launched.agent_pidfd = std::move(found.agent);
  const std::string folder = RecordFiles(SandboxesIn(parts_.settings.state_dir)).FolderOf(uid);
  const absl::Status located = Locate(folder, &launched);
  Member& member = members_[uid];
  member.adopted = true;
  member.begun = parts_.loop.Now();
  member.record = *std::move(found.record);
  member.sandbox = std::make_shared<LocalSandbox>(parts_.loop, parts_.dialer, parts_.settings, uid,
                                                  std::move(launched), CallbacksOf(uid));
  const OneShot<bool> settled = member.settled;
  const std::shared_ptr<LocalSandbox> sandbox = member.sandbox;
  sandbox->Start();
  if (!located.ok()) sandbox->Kill(std::string(MessageOf(located)));
  const bool taken = co_await settled.Wait();
  if (taken) co_return;
  obs::Log(obs::Level::kWarning, "a sandbox of an earlier broker was ended", {{"sandbox", uid}});
}

void Pool::OnAdopted(const std::string& uid) {
  Member& member = members_.at(uid);
  SANDBROKER_FAIL_POINT("adopt.answered");
  // The dial asked for the record's incarnation with the record's secret.
  switch (broker::DecideAdoption(member.record.phase, true)) {
    case broker::Adoption::kToPool:
      BecomeReady(uid);
      break;
    case broker::Adoption::kToBroker:
      member.use = Use::kClaimed;
      if (observer_ != nullptr) {
        observer_->OnAdopted({uid, settings_.name, *member.record.claim, member.sandbox->link()});
      }
      break;
    case broker::Adoption::kEnd:
      return member.sandbox->Kill("its record says that it was never handed out");
  }
  Publish();
  members_.at(uid).settled.Set(true);
}

}  // namespace sandbroker::local

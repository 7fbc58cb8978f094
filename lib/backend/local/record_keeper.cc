#include "lib/backend/local/record_keeper.h"

#include "lib/base/fail_point.h"
#include "lib/base/status.h"

namespace sandbroker::local {

Task<absl::Status> RecordKeeper::Write(const SandboxRecord& record) {
  const std::string uid = record.uid;
  Entry& entry = entries_[uid];
  if (entry.removed) co_return MakeError(Reason::kSandboxGone, "the sandbox has ended");
  entry.text = EncodeRecord(record);
  OneShot<absl::Status> written;
  entry.waiting.emplace_back(++entry.wanted, written);
  if (!std::exchange(entry.writing, true)) scope_.Spawn("write state file", WriteAll(uid));
  co_return co_await written.Wait();
}

Task<void> RecordKeeper::WriteAll(std::string uid) {
  Entry& entry = entries_.at(uid);  // stays: nobody else erases while it is being written
  while (!entry.waiting.empty()) {
    const uint64_t number = entry.wanted;
    const auto work = [this, uid, text = entry.text] { return files_.Write(uid, text); };
    const absl::StatusOr<absl::Status> done = co_await blocking_.Run(work);
    SANDBROKER_FAIL_POINT("record.written");
    const absl::Status status = done.ok() ? *done : done.status();
    std::vector<std::pair<uint64_t, OneShot<absl::Status>>> later;
    const auto waiting = std::exchange(entry.waiting, {});
    for (const auto& [wanted, waiter] : waiting) {
      if (wanted <= number) {
        waiter.Set(status);
      } else {
        later.emplace_back(wanted, waiter);
      }
    }
    entry.waiting.insert(entry.waiting.begin(), later.begin(), later.end());
  }
  entry.writing = false;
  const auto idle = std::exchange(entry.idle, {});
  if (!entry.removed) entries_.erase(uid);
  for (const OneShot<bool>& waiter : idle) waiter.Set(true);
}

Task<void> RecordKeeper::Remove(std::string uid) {
  Entry& entry = entries_[uid];
  entry.removed = true;
  if (entry.writing) {
    OneShot<bool> idle;
    entry.idle.push_back(idle);
    co_await idle.Wait();
  }
  const auto work = [this, uid] {
    remove_(uid);
    return true;
  };
  co_await blocking_.Run(work);
  entries_.erase(uid);
}

}  // namespace sandbroker::local

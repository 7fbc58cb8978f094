#include "lib/backend/local/leftovers.h"

#include <utility>

#include "lib/base/status.h"

namespace sandbroker::local {

std::vector<FoundSandbox> FindLeftovers(RecordFiles& files) {
  const std::string host = HostName();
  const auto marked = FindMarked();
  std::vector<FoundSandbox> all;
  for (const std::string& uid : files.List()) {
    FoundSandbox found;
    found.uid = uid;
    const absl::StatusOr<std::string> text = files.Read(uid);
    absl::StatusOr<SandboxRecord> record =
        text.ok() ? ParseRecord(*text, uid) : absl::StatusOr<SandboxRecord>(text.status());
    if (record.ok()) {
      if (record->host == host) found.agent = OpenProcess(record->agent);
      found.record = *std::move(record);
    } else {
      found.complaint = std::string(MessageOf(record.status()));
    }
    found.alive = found.agent.valid() || marked.count(uid) != 0;
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace sandbroker::local

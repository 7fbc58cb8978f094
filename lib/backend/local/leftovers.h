// What an earlier broker left in the state directory: records read, and each looked for among the
// processes. Decides nothing (lib/broker/core/adoption.h does). Blocking; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/backend/local/record_files.h"
#include "lib/backend/local/sandbox_record.h"
#include "lib/base/fd.h"

namespace sandbroker::local {

struct FoundSandbox {
  std::string uid;  // name of its folder
  std::optional<SandboxRecord> record;
  std::string complaint;  // why there is no record
  // A process of it is there.
  bool alive = false;
  // Of its agent, by pid and start time; invalid if that one has ended, or was never recorded.
  UniqueFd agent;
};

std::vector<FoundSandbox> FindLeftovers(RecordFiles& files);

}  // namespace sandbroker::local

// State files from the loop: each sandbox's writes go out one after another over the blocking pool,
// the newest wins, and a caller hears when its own or a newer one is in place. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/async/blocking_pool.h"
#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/backend/local/record_files.h"
#include "lib/backend/local/sandbox_record.h"

namespace sandbroker::local {

class RecordKeeper {
 public:
  // All outlive it. `remove` is called on the blocking pool with the uid of a sandbox that is gone,
  // and takes away its folder with all else that it had on this host.
  RecordKeeper(RecordFiles& files, BlockingPool& blocking, TaskScope& scope,
               std::function<void(const std::string&)> remove)
      : files_(files), blocking_(blocking), scope_(scope), remove_(std::move(remove)) {}

  // Answers once this record, or one that was handed over later, is in place.
  Task<absl::Status> Write(const SandboxRecord& record);
  // Removes the sandbox's folder, after what is being written. Later writes fail.
  Task<void> Remove(std::string uid);

 private:
  struct Entry {
    std::string text;     // the newest
    uint64_t wanted = 0;  // its number
    bool writing = false;
    bool removed = false;
    std::vector<std::pair<uint64_t, OneShot<absl::Status>>> waiting;
    std::vector<OneShot<bool>> idle;  // hear when nothing is being written
  };
  Task<void> WriteAll(std::string uid);

  RecordFiles& files_;
  BlockingPool& blocking_;
  TaskScope& scope_;
  const std::function<void(const std::string&)> remove_;
  std::map<std::string, Entry> entries_;  // with something to write
};

}  // namespace sandbroker::local

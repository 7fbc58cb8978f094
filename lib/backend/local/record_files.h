// State files on disk: written to a temporary and renamed, so that a file is there whole or not at
// all. Not fsynced: a sandbox can't outlive the host it runs on, and what a killed process has
// written stays in the kernel (docs/adr/0006). Blocking; any thread, one call a sandbox at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sandbroker::local {

// The folder with one folder a sandbox, of the backend whose state is in `state_dir`.
std::string SandboxesIn(const std::string& state_dir);

class RecordFiles {
 public:
  // `directory` holds one folder a sandbox.
  explicit RecordFiles(std::string directory) : directory_(std::move(directory)) {}

  absl::Status MakeDirectory();
  std::string FolderOf(const std::string& uid) const;
  // The folder must exist.
  absl::Status Write(const std::string& uid, std::string_view text);
  absl::StatusOr<std::string> Read(const std::string& uid);
  // The folder with everything in it.
  void Remove(const std::string& uid);
  // Names of all folders.
  std::vector<std::string> List();

 private:
  const std::string directory_;
};

}  // namespace sandbroker::local

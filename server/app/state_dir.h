// The state directory: made, locked against a second broker, its layout's version checked, and the
// key of the handles read or made. Blocking; main thread, before anything runs. The lock lasts as
// long as the object.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "lib/base/fd.h"

namespace sandbroker::app {

// The directory alone: makes it if it is missing; an error unless it is ours and nobody else may
// write to it.
absl::Status MakeStateDir(const std::string& path);

class StateDir {
 public:
  // Errors say what to do: who holds the lock, whose directory it is, which version it has.
  static absl::StatusOr<StateDir> Open(const std::string& path);

  const std::string& path() const { return path_; }
  // 32 random bytes, made once: handles stay good when the broker is started again.
  const std::string& key() const { return key_; }

 private:
  StateDir(std::string path, UniqueFd lock, std::string key)
      : path_(std::move(path)), lock_(std::move(lock)), key_(std::move(key)) {}

  std::string path_;
  UniqueFd lock_;
  std::string key_;
};

}  // namespace sandbroker::app

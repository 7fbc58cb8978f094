// Small files, whole. Blocking.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sandbroker::app {

// Through a temporary beside it, fsync and rename: a reader finds nothing or all of it.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content, mode_t mode);

// NOT_FOUND if there is none; at most `limit` bytes.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t limit);

}  // namespace sandbroker::app

// What this host says about itself, read from /proc and /sys. Answers plain data for the pure parts
// (isolation.h, protections.h). Blocks for microseconds; any thread.
#pragma once

#include <cstddef>
#include <string>

#include "lib/backend/local/isolation.h"

namespace sandbroker::local {

HostFacts ReadHostFacts();

// HiddenProcPaths that exist here.
std::vector<HiddenPath> ExistingHiddenPaths();

// What a file begins with, in whole reads until `limit` bytes are there; empty when it can't be
// read.
std::string ReadUpTo(const std::string& path, size_t limit);

// First MiB of a file without trailing white space; empty when it can't be read.
std::string ReadSmallFile(const std::string& path);

}  // namespace sandbroker::local

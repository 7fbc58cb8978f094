// The configuration file: strict reading, and writing of what is in effect. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lib/config/config.h"

namespace sandbroker::config {

// A file larger than this is not read.
inline constexpr size_t kMaxFileBytes = 1 << 20;

// Puts what `text` says over what is in `config`. Unknown and repeated keys, wrong kinds and bad
// values are refused: "FILE:LINE: key: why". On an error `config` may be half changed.
absl::Status ReadYaml(std::string_view text, std::string_view file, Config* config);

// Every key with its value; ReadYaml of it gives the same configuration.
std::string WriteYaml(const Config& config);

}  // namespace sandbroker::config

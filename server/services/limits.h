// Limits of the contract that a request is checked against. docs of each field:
// proto/sandbroker/v1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"

namespace sandbroker::services {

inline constexpr size_t kMaxArgvBytes = 4 * 1024 * 1024;
inline constexpr size_t kMaxEnvVariables = 256;
inline constexpr size_t kMaxEnvBytes = 128 * 1024;
inline constexpr size_t kMaxCwdBytes = 4096;
inline constexpr size_t kMaxStdinBytes = 1024 * 1024;
inline constexpr uint32_t kMaxRunOutputBytes = 1024 * 1024;
inline constexpr size_t kMaxOutputChunkBytes = 256 * 1024;
inline constexpr uint64_t kMinLogBytes = 64 * 1024;
inline constexpr size_t kMaxRenewals = 1000;
inline constexpr int kDefaultPageSize = 100;
inline constexpr int kMaxPageSize = 1000;
inline constexpr Duration kDefaultKillGrace = std::chrono::seconds(5);
inline constexpr Duration kMaxKillGrace = std::chrono::minutes(10);
inline constexpr Duration kMaxChildBound = std::chrono::hours(24);
inline constexpr Duration kMaxWaitBound = std::chrono::minutes(10);
// Longer timeouts than this mean the same: no sandbox lives as long.
inline constexpr Duration kLongestTimeout = std::chrono::hours(24 * 365);

}  // namespace sandbroker::services

// The values that travel between services, broker and backends. Plain data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/labels.h"

namespace sandbroker::broker {

// Who calls. Every call carries one; today there is one built-in principal.
struct Principal {
  std::string name;
  std::string tenant;
};

struct EnvVar {
  std::string name;
  std::string value;
};

struct LeaseSpec {
  Duration ttl = std::chrono::minutes(10);
  Duration max_lifetime = std::chrono::hours(24);
  bool keep_while_running = true;
};
inline constexpr Duration kMinLeaseTtl = std::chrono::seconds(1);
inline constexpr Duration kMaxLifetime = std::chrono::hours(24);

enum class Fallback { kWarmOnly, kWait, kColdOk };
// kAdopted: bound for an earlier try of the same request whose broker died.
enum class Source { kWarm, kCold, kRepeated, kAdopted };

// For whom a sandbox is acquired, as its claim shall say from its first moment.
struct Claimant {
  std::string tenant;
  // Of an Acquire with a request_id, as in Claim.
  std::string receipt;
  std::string token;
};

struct AcquireSpec {
  std::string pool = "default";
  Labels labels;
  std::vector<EnvVar> env;
  LeaseSpec lease;
  Duration min_remaining{0};
  Fallback fallback = Fallback::kColdOk;
  Duration wait_bound = std::chrono::seconds(60);
  std::string request_id;  // empty = none
  Claimant claimant = {};  // filled in by the broker
};

struct LeaseView {
  WallTime expire;
  Duration remaining;
  LeaseSpec spec;
};

enum class SandboxState { kStarting, kReady, kUnreachable, kReleasing };

struct SandboxView {
  std::string handle;
  SandboxState state = SandboxState::kReady;
  std::string pool;
  Labels labels;
  LeaseView lease;
  std::string incarnation;
  WallTime acquired;
  std::string not_ready_reason;
};

struct AcquireTiming {
  Duration queued{0};
  Duration started{0};
  Duration bound{0};
  Duration total{0};
};

struct Acquired {
  SandboxView sandbox;
  Source source = Source::kWarm;
  AcquireTiming timing;
};

struct Released {
  bool already_gone = false;
  std::vector<std::string> ended_executions;
};

struct PoolCapacity {
  std::string pool;
  uint32_t wanted = 0;
  uint32_t ready = 0;
  uint32_t pending = 0;
  uint32_t claimed = 0;
  uint32_t waiting_callers = 0;
  uint32_t limit = 0;
  std::string last_error;
};

}  // namespace sandbroker::broker

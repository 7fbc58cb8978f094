// What is written down about one sandbox, as state.json in its folder: enough for the next broker
// to find its agent, prove itself, and keep what was promised. Two owners: the local backend (who
// it is, how to reach it) and the broker (the claim). Holds the link's secret, so the file is 0600.
// Pure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/backend/local/processes.h"
#include "lib/broker/core/adoption.h"
#include "lib/broker/core/claim.h"

namespace sandbroker::local {

struct SandboxRecord {
  std::string uid;
  std::string pool;
  broker::RecordPhase phase = broker::RecordPhase::kStarting;  // never kUnreadable
  uid_t host_uid = 0;                                          // 0 = the broker's own
  // Hash of how it was made; another one means that the configuration or the program changed.
  std::string made;
  std::string secret;  // wire::kSecretSize bytes
  // From here on empty while it is starting.
  std::string host;     // HostName(), under which `agent` means something
  std::string boot_id;  // the agent's
  ProcessName agent;
  // Exactly when it is claimed.
  std::optional<broker::Claim> claim;
};

// Largest record: 64 labels of the longest kind and some room.
inline constexpr size_t kMaxRecordBytes = 128 * 1024;

std::string EncodeRecord(const SandboxRecord& record);
// DATA_LOSS with what is wrong for whatever EncodeRecord can't have made, and for numbers that
// can't be true. `uid`: of the folder it was found in. Unknown keys are passed over.
absl::StatusOr<SandboxRecord> ParseRecord(std::string_view text, std::string_view uid);

}  // namespace sandbroker::local

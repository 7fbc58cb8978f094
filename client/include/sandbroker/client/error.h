// What a failed call says beyond its code: the reason of the contract (proto/sandbroker/v1/
// errors.proto), what it is about, and when to try again. Any thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace sandbroker::client {

struct FieldViolation {
  // Path of the request's field: "lease.ttl".
  std::string field;
  std::string description;
};

struct Error {
  // Name of a sandbroker.v1.Reason without its prefix: "POOL_EXHAUSTED". Empty when the status did
  // not come from the service (a broken connection, a deadline of the caller).
  std::string reason;
  // "sandbroker.dev".
  std::string domain;
  std::map<std::string, std::string> metadata;
  std::optional<std::chrono::nanoseconds> retry_after;
  std::vector<FieldViolation> field_violations;
};

// Empty when the status carries no details.
Error ErrorOf(const absl::Status& status);

}  // namespace sandbroker::client

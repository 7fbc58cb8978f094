// The hash that tells two Starts with the same execution id apart (docs/protocols.md D): over the
// caller's fields before defaults, never over serialized protos. Pure.
#pragma once

#include <string>

#include "lib/base/crypto.h"
#include "sandbroker/agent/v1/link.pb.h"

namespace sandbroker::broker {

namespace agent = ::sandbroker::agent::v1;

// 32 bytes.
inline std::string SpecHash(const agent::Start& start) {
  FieldList fields("start.1");
  fields.Add(static_cast<int64_t>(start.argv_size()));
  for (const std::string& arg : start.argv()) fields.Add(arg);
  fields.Add(start.cwd()).Add(static_cast<int64_t>(start.env_size()));
  for (const agent::EnvVar& var : start.env()) fields.Add(var.name()).Add(var.value());
  fields.Add(static_cast<int64_t>(start.stdin())).Add(start.timeout_ns());
  fields.Add(start.kill_grace_ns()).Add(static_cast<int64_t>(start.log_bytes()));
  fields.Add(static_cast<int64_t>(start.children())).Add(start.children_bound_ns());
  return fields.Hash();
}

}  // namespace sandbroker::broker

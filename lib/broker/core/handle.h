// The sandbox handle: "sb1_" + base64url(fields, MAC). It carries what any replica needs to find
// the sandbox, and whose it is; a client can neither read intent into it nor change it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sandbroker::broker {

struct Handle {
  std::string tenant;
  char kind = 't';    // 't' task, 'w' workspace
  std::string space;  // Backend::space(): the namespace on Kubernetes, or "local"
  // Of the object that carries the claim; the pool where no such object is needed. Only the backend
  // that made it reads anything into it.
  std::string name;
  std::string uid;
  std::string incarnation;
};

std::string EncodeHandle(const Handle& handle, std::string_view key);

// SANDBOX_NOT_FOUND for whatever EncodeHandle(…, key) did not make; says nothing more.
absl::StatusOr<Handle> DecodeHandle(std::string_view text, std::string_view key);

}  // namespace sandbroker::broker

// HOST:PORT as numbers. Names are not looked up: what decides whether an address is safe to serve
// must not depend on a resolver. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sandbroker::config {

struct Address {
  std::string host;  // "127.0.0.1", "::1"; "localhost" has become 127.0.0.1
  uint16_t port = 0;
  bool v6 = false;

  // "127.0.0.1:7443", "[::1]:7443".
  std::string ToString() const;
  // In 127.0.0.0/8, or ::1.
  bool IsLoopback() const;
};

absl::StatusOr<Address> ParseAddress(std::string_view text);

}  // namespace sandbroker::config

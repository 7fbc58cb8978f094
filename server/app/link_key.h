// The key that this broker signs links over TLS with: kept in the state directory, made on demand.
// Blocking; any thread. Needs no lock of the directory, so that it can be asked for while a broker
// runs there; whoever makes it, all find the same one.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "lib/base/signing.h"

namespace sandbroker::app {

absl::StatusOr<SigningKey> ReadOrMakeLinkKey(const std::string& state_dir);

}  // namespace sandbroker::app

// The keys that all replicas share: that of the handles, and the one that proves a broker to the
// agents. They stand in a Secret, which whoever starts earliest makes. What a Secret holds is read
// strictly: with another key handles given out would be worth nothing. Loop thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "lib/async/task.h"
#include "lib/base/signing.h"
#include "lib/kube/api.h"

namespace sandbroker::kubernetes {

struct SharedKeys {
  std::string handle_key;  // 32 bytes
  SigningKey link_key;     // Ed25519
};

// The Secret to be made. Pure, as is ReadSecret.
boost::json::object SecretOf(const SharedKeys& keys, const std::string& name);
// FAILED_PRECONDITION naming the Secret and its key when one is missing or none.
absl::StatusOr<SharedKeys> ReadSecret(const boost::json::object& secret, const std::string& name);

// Reads the Secret, or makes it with new keys; of several that make it one wins, and all read that
// one's. Each request has `bound`.
Task<absl::StatusOr<SharedKeys>> LoadKeys(kube::Api& api, std::string space, std::string name,
                                          Duration bound);

}  // namespace sandbroker::kubernetes

// What the API server's answer means to a caller of the broker. A right that the broker lacks is
// the operator's matter and never looks like the caller's. Pure.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "lib/kube/api.h"

namespace sandbroker::kubernetes {

// `result` is not OK. BROKER_FORBIDDEN naming verb and resource; API_UNREACHABLE (not sent, too
// busy, broken); API_TIMEOUT (sent, outcome unknown); CLAIM_REJECTED with the server's words
// otherwise.
absl::Status ApiError(const kube::Result& result, std::string_view verb,
                      const kube::Resource& resource);

// Worth another try later: nothing is wrong with the request itself.
bool IsPassing(const kube::Result& result);

}  // namespace sandbroker::kubernetes

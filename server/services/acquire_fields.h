// AcquireRequest to AcquireSpec: every field checked, every default filled in. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "lib/broker/core/types.h"
#include "sandbroker/v1/sandbox.pb.h"

namespace sandbroker::services {

absl::StatusOr<broker::AcquireSpec> ReadAcquire(const v1::AcquireRequest& request);

}  // namespace sandbroker::services

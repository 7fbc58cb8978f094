// Carries the details of a gRPC status inside an absl::Status, where ErrorOf finds them. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"

namespace sandbroker::client {

absl::Status FromGrpc(const grpc::Status& status);

// For failures that come as items of an answer: a status with the reason's name.
absl::Status WithReason(absl::StatusCode code, absl::string_view message, absl::string_view reason);

}  // namespace sandbroker::client

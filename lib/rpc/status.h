// The one place where an absl::Status becomes a grpc::Status: its reason goes into
// google.rpc.ErrorInfo, its field into BadRequest, its delay into RetryInfo. Any thread.
#pragma once

#include <grpcpp/support/status.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sandbroker::rpc {

inline constexpr std::string_view kErrorDomain = "sandbroker.dev";
// A trailer with every detail stays below gRPC's default limit for metadata.
inline constexpr size_t kMaxTrailerBytes = 8 * 1024;

// A status without a reason, and INTERNAL itself, is a fault of ours: the caller gets a fixed text
// and a request id, and our log gets the rest under the same id. `method` is for that log line.
grpc::Status ToGrpcStatus(const absl::Status& status, std::string_view method);

// What the caller may see of `status`: itself, or the fixed text of a fault of ours, which is then
// logged. For results that carry a status of their own for every item.
absl::Status PublicStatus(const absl::Status& status, std::string_view method);

// Text that a protobuf string field can hold: what is not UTF-8 is replaced, what is longer than
// `limit` bytes is cut at a character's edge.
std::string PublicText(std::string_view text, size_t limit);

}  // namespace sandbroker::rpc

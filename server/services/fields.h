// Reads fields of requests that several messages share. Every refusal is FIELD_INVALID and names
// the path of the field. Pure.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/repeated_ptr_field.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/broker/core/types.h"
#include "sandbroker/v1/sandbox.pb.h"

namespace sandbroker::services {

struct DurationRange {
  Duration least;
  Duration most;
};

// Of a field that is set; what unset means is the caller's to say. Zero and negative values are
// refused unless the range holds them.
absl::StatusOr<Duration> ReadDuration(const google::protobuf::Duration& from,
                                      std::string_view field, DurationRange range);

absl::StatusOr<WallTime> ReadTimestamp(const google::protobuf::Timestamp& from,
                                       std::string_view field);

// Empty is fine.
absl::Status CheckId(const std::string& id, std::string_view field);
// A handle must be given; whether it is good is the broker's to say.
absl::Status CheckHandle(const std::string& handle, std::string_view field);

absl::StatusOr<std::vector<broker::EnvVar>> ReadEnvironment(
    const google::protobuf::RepeatedPtrField<v1::EnvironmentVariable>& from,
    std::string_view field);

}  // namespace sandbroker::services

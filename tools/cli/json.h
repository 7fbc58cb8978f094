// Messages of the contract as JSON with the proto's field names, zero values included, so that
// scripts find every field. One line each. Pure.
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "sandbroker/v1/sandbox.pb.h"

namespace sandbroker::cli {

std::string ToJson(const google::protobuf::Message& message);

// The sandbox's fields, `source` and `timing` in one object.
std::string AcquiredToJson(const v1::AcquireResponse& acquired);

}  // namespace sandbroker::cli

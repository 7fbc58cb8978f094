// Between our memory and gRPC's. Any thread.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string_view>

#include "lib/base/bytes.h"

namespace sandbroker::rpc {

// Refers to the memory of `bytes`, which lives until gRPC has dropped the slice.
grpc::Slice ShareSlice(SharedBytes bytes);

grpc::Slice CopySlice(std::string_view bytes);

// `message` is smaller than 2 GiB, as all of ours are.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

}  // namespace sandbroker::rpc

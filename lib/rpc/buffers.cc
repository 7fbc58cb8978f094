#include "lib/rpc/buffers.h"

#include <utility>

namespace sandbroker::rpc {

grpc::Slice ShareSlice(SharedBytes bytes) {
  auto* owner = new SharedBytes(std::move(bytes));
  const auto release = [](void* shared) { delete static_cast<SharedBytes*>(shared); };
  return grpc::Slice(const_cast<char*>(owner->data()), owner->size(), release, owner);
}

grpc::Slice CopySlice(std::string_view bytes) { return grpc::Slice(bytes.data(), bytes.size()); }

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  grpc::Slice slice(size);
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace sandbroker::rpc

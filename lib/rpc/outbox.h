// What a stream still has to send, in order. The stream asks for the next message when gRPC has
// taken the one before, so an implementation may join what piled up meanwhile. Every call is made
// under the stream's lock, from the loop or from gRPC's threads.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>

namespace sandbroker::rpc {

struct Outgoing {
  grpc::ByteBuffer message;
  // Reported by StreamHandler::OnSent once gRPC has taken the message.
  uint64_t credit = 0;
};

class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual bool empty() const = 0;
  // Holds exactly one more message.
  virtual bool last() const = 0;
  // Not when empty.
  virtual Outgoing Pop() = 0;
};

}  // namespace sandbroker::rpc

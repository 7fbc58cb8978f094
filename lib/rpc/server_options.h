// Settings of the gRPC server that the contract relies on, so that the program and the tests serve
// alike. Before BuildAndStart.
#pragma once

#include <grpcpp/server_builder.h>

#include <cstddef>

namespace sandbroker::rpc {

// argv (4 MiB) and env with room to spare.
inline constexpr size_t kMaxRequestBytes = 8 * 1024 * 1024;
// Calls a single connection may have open; more of them wait at the client without a sign.
inline constexpr int kMaxStreamsPerConnection = 20000;

void ApplyServerOptions(grpc::ServerBuilder& builder);

}  // namespace sandbroker::rpc

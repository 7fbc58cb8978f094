#include "lib/rpc/server_options.h"

#include <grpc/grpc.h>

namespace sandbroker::rpc {
namespace {

constexpr int kKeepaliveMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kFastestClientPingMs = 5'000;

}  // namespace

void ApplyServerOptions(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxRequestBytes));
  // Output is bytes of programs: compressing would cost time and delay small pieces.
  builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  // Two servers must not share a port by accident.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A peer that vanished without a word is noticed while its streams are idle.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kFastestClientPingMs);
}

}  // namespace sandbroker::rpc

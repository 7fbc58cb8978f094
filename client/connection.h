// One channel to a broker and its stub: how addresses are read, how a connection is made and kept.
// Shared by all clients, leases and executions made from it; any thread.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/error_details.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "sandbroker/client/options.h"
#include "sandbroker/v1/broker.grpc.pb.h"

namespace sandbroker::client {

// The gRPC target of "HOST:PORT" or "unix:PATH"; INVALID_ARGUMENT says what is wrong.
absl::StatusOr<std::string> TargetOf(const std::string& address);

void SetDeadline(grpc::ClientContext& context, std::optional<Duration> deadline);

class Connection {
 public:
  using Stub = v1::SandboxBroker::Stub;

  explicit Connection(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)), stub_(v1::SandboxBroker::NewStub(channel_)) {}

  // UNAVAILABLE when no server answers in time.
  static absl::StatusOr<std::shared_ptr<Connection>> Open(const std::string& address,
                                                          const ConnectOptions& options);

  Stub& stub() { return *stub_; }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, const CallOptions& call) {
    grpc::ClientContext context;
    SetDeadline(context, call.deadline);
    std::stop_callback on_stop(call.stop, [&context] { context.TryCancel(); });
    Response response;
    grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
};

}  // namespace sandbroker::client

// SandboxBroker of proto/sandbroker/v1: each call is authorised, its request checked, handed to the
// Broker on the loop, and the answer translated. gRPC calls the methods on its own threads; they
// only make an adapter of lib/rpc, which posts.
#pragma once

#include "lib/broker/broker.h"
#include "lib/rpc/call_context.h"
#include "lib/rpc/runtime.h"
#include "lib/rpc/unary.h"
#include "sandbroker/v1/broker.grpc.pb.h"
#include "server/services/authoriser.h"
#include "server/services/execution_fields.h"
#include "server/services/service_settings.h"

namespace sandbroker::services {

// Streams are served from raw buffers, so that output goes out as the memory it came in.
using BrokerServiceBase =
    v1::SandboxBroker::WithCallbackMethod_Acquire<v1::SandboxBroker::WithCallbackMethod_Release<
        v1::SandboxBroker::WithCallbackMethod_ReleaseTaskSandboxes<
            v1::SandboxBroker::WithCallbackMethod_ReadTaskCapacity<
                v1::SandboxBroker::WithCallbackMethod_GetSandbox<
                    v1::SandboxBroker::WithCallbackMethod_ListSandboxes<
                        v1::SandboxBroker::WithRawCallbackMethod_WatchSandboxes<
                            v1::SandboxBroker::WithCallbackMethod_RenewLeases<
                                v1::SandboxBroker::WithRawCallbackMethod_Exec<
                                    v1::SandboxBroker::WithCallbackMethod_Run<
                                        v1::SandboxBroker::WithCallbackMethod_GetServerInfo<
                                            v1::SandboxBroker::Service>>>>>>>>>>>;

class BrokerService final : public BrokerServiceBase {
 public:
  // All of them outlive the server this is registered with.
  BrokerService(const rpc::Runtime& runtime, broker::Broker& broker, const Authoriser& authoriser,
                ServiceSettings settings);

  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  Unary* Acquire(Context*, const v1::AcquireRequest*, v1::AcquireResponse*) override;
  Unary* Release(Context*, const v1::ReleaseRequest*, v1::ReleaseResponse*) override;
  Unary* ReleaseTaskSandboxes(Context*, const v1::ReleaseTaskSandboxesRequest*,
                              v1::ReleaseTaskSandboxesResponse*) override;
  Unary* ReadTaskCapacity(Context*, const v1::ReadTaskCapacityRequest*,
                          v1::ReadTaskCapacityResponse*) override;
  Unary* GetSandbox(Context*, const v1::GetSandboxRequest*, v1::GetSandboxResponse*) override;
  Unary* ListSandboxes(Context*, const v1::ListSandboxesRequest*,
                       v1::ListSandboxesResponse*) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* WatchSandboxes(Context*,
                                                             const grpc::ByteBuffer*) override;
  Unary* RenewLeases(Context*, const v1::RenewLeasesRequest*, v1::RenewLeasesResponse*) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exec(Context*) override;
  Unary* Run(Context*, const v1::RunRequest*, v1::RunResponse*) override;
  Unary* GetServerInfo(Context*, const v1::GetServerInfoRequest*,
                       v1::GetServerInfoResponse*) override;

 private:
  // Loop thread.
  using Call = rpc::CallContext;
  Task<absl::StatusOr<v1::AcquireResponse>> DoAcquire(Call call, const v1::AcquireRequest& request);
  Task<absl::StatusOr<v1::ReleaseResponse>> DoRelease(Call call, const v1::ReleaseRequest& request);
  Task<absl::StatusOr<v1::ReleaseTaskSandboxesResponse>> DoReleaseMatching(
      Call call, const v1::ReleaseTaskSandboxesRequest& request);
  absl::StatusOr<v1::ReadTaskCapacityResponse> DoCapacity(
      const Call& call, const v1::ReadTaskCapacityRequest& request);
  Task<absl::StatusOr<v1::GetSandboxResponse>> DoGet(Call call,
                                                     const v1::GetSandboxRequest& request);
  absl::StatusOr<v1::ListSandboxesResponse> DoList(const Call& call,
                                                   const v1::ListSandboxesRequest& request);
  Task<absl::StatusOr<v1::RenewLeasesResponse>> DoRenew(Call call,
                                                        const v1::RenewLeasesRequest& request);
  // Runs it once the broker has settled what its sandbox is.
  Task<void> RunWhenSettled(broker::Principal who, RunSpec spec, std::string input,
                            CancelToken cancel, rpc::Responder<v1::RunResponse> responder);
  void DoRun(const Call& call, const v1::RunRequest& request,
             rpc::Responder<v1::RunResponse> responder);
  absl::StatusOr<v1::GetServerInfoResponse> DoInfo(const Call& call);

  const rpc::Runtime runtime_;
  broker::Broker& broker_;
  const Authoriser& authoriser_;
  const ServiceSettings settings_;
};

}  // namespace sandbroker::services

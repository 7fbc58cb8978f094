#include "sandbroker/client/client.h"

#include <utility>

#include "client/connection.h"
#include "client/convert.h"
#include "client/exec_stream.h"

namespace sandbroker::client {

using Stub = Connection::Stub;

Client::Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

absl::StatusOr<Client> Client::Connect(const std::string& address, const ConnectOptions& options) {
  absl::StatusOr<std::shared_ptr<Connection>> connection = Connection::Open(address, options);
  if (!connection.ok()) return connection.status();
  return Client(*std::move(connection));
}

absl::StatusOr<SandboxLease> Client::Acquire(const AcquireOptions& options,
                                             const CallOptions& call) const {
  absl::StatusOr<v1::AcquireResponse> response =
      connection_->Call(&Stub::Acquire, ToProto(options), call);
  if (!response.ok()) return response.status();
  return SandboxLease(*this, *std::move(response), options.release_timeout);
}

absl::StatusOr<v1::ReleaseResponse> Client::Release(const std::string& sandbox_id,
                                                    const CallOptions& call) const {
  v1::ReleaseRequest request;
  request.set_sandbox_id(sandbox_id);
  return connection_->Call(&Stub::Release, request, call);
}

absl::StatusOr<v1::ReleaseTaskSandboxesResponse> Client::ReleaseTaskSandboxes(
    const ReleaseTaskOptions& options, const CallOptions& call) const {
  return connection_->Call(&Stub::ReleaseTaskSandboxes, ToProto(options), call);
}

absl::StatusOr<v1::RunResponse> Client::Run(const std::string& sandbox_id, const Program& program,
                                            const RunOptions& options,
                                            const CallOptions& call) const {
  return connection_->Call(&Stub::Run, ToRunRequest(sandbox_id, program, options), call);
}

Execution Client::Exec(const std::string& sandbox_id, const Program& program,
                       const ExecOptions& options) const {
  return Execution(ExecStream::Start(connection_, ToExecRequest(sandbox_id, program, options),
                                     options, std::nullopt));
}

Execution Client::Exec(const std::string& sandbox_id, const Program& program,
                       const ExecOptions& options, ExecCallbacks callbacks) const {
  return Execution(ExecStream::Start(connection_, ToExecRequest(sandbox_id, program, options),
                                     options, std::move(callbacks)));
}

absl::StatusOr<v1::RenewLeasesResponse> Client::Renew(const std::vector<std::string>& sandbox_ids,
                                                      const CallOptions& call) const {
  v1::RenewLeasesRequest request;
  for (const std::string& id : sandbox_ids) request.add_sandbox_ids(id);
  return connection_->Call(&Stub::RenewLeases, request, call);
}

absl::StatusOr<v1::Sandbox> Client::Get(const std::string& sandbox_id,
                                        const CallOptions& call) const {
  v1::GetSandboxRequest request;
  request.set_sandbox_id(sandbox_id);
  absl::StatusOr<v1::GetSandboxResponse> response =
      connection_->Call(&Stub::GetSandbox, request, call);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_sandbox());
}

absl::StatusOr<std::vector<v1::Sandbox>> Client::List(const std::string& label_selector,
                                                      const CallOptions& call) const {
  std::vector<v1::Sandbox> sandboxes;
  v1::ListSandboxesRequest request;
  request.set_label_selector(label_selector);
  do {
    absl::StatusOr<v1::ListSandboxesResponse> response =
        connection_->Call(&Stub::ListSandboxes, request, call);
    if (!response.ok()) return response.status();
    for (v1::Sandbox& sandbox : *response->mutable_sandboxes()) {
      sandboxes.push_back(std::move(sandbox));
    }
    request.set_page_token(response->next_page_token());
  } while (!request.page_token().empty());
  return sandboxes;
}

absl::Status Client::Watch(const std::string& label_selector,
                           const std::function<bool(const v1::WatchSandboxesResponse&)>& on_event,
                           const CallOptions& call) const {
  grpc::ClientContext context;
  SetDeadline(context, call.deadline);
  std::stop_callback on_stop(call.stop, [&context] { context.TryCancel(); });
  v1::WatchSandboxesRequest request;
  request.set_label_selector(label_selector);
  const auto reader = connection_->stub().WatchSandboxes(&context, request);
  v1::WatchSandboxesResponse event;
  while (reader->Read(&event)) {
    if (on_event(event)) continue;
    context.TryCancel();
    while (reader->Read(&event)) {
    }
    reader->Finish();
    return absl::OkStatus();
  }
  const grpc::Status status = reader->Finish();
  if (status.ok()) return absl::UnavailableError("the server ended the watch without a reason");
  return FromGrpc(status);
}

absl::StatusOr<v1::ReadTaskCapacityResponse> Client::Capacity(const std::string& pool,
                                                              const CallOptions& call) const {
  v1::ReadTaskCapacityRequest request;
  request.set_pool(pool);
  return connection_->Call(&Stub::ReadTaskCapacity, request, call);
}

absl::StatusOr<v1::GetServerInfoResponse> Client::Info(const CallOptions& call) const {
  return connection_->Call(&Stub::GetServerInfo, v1::GetServerInfoRequest(), call);
}

}  // namespace sandbroker::client

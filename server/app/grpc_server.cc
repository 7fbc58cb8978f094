#include "server/app/grpc_server.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>

#include "lib/base/strings.h"
#include "lib/obs/log.h"
#include "lib/rpc/server_options.h"

namespace sandbroker::app {
namespace {

// Reflection and channelz are the only synchronous services; few people look at a time.
constexpr int kSyncThreads = 2;

void LogFromGrpc(gpr_log_func_args* args) {
  const obs::Level level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? obs::Level::kWarning : obs::Level::kDebug;
  obs::Log(level, "grpc", {{"text", args->message}, {"file", args->file}, {"line", args->line}});
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(LogFromGrpc); }

absl::Status GrpcServer::Start(const std::optional<config::Address>& address,
                               const std::vector<NamedService>& services) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::channelz::experimental::InitChannelzService();
  grpc::ServerBuilder builder;
  rpc::ApplyServerOptions(builder);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, kSyncThreads);
  int port = 0;
  if (address) {
    builder.AddListeningPort(address->ToString(), grpc::InsecureServerCredentials(), &port);
  }
  for (const NamedService& named : services) {
    builder.RegisterService(&named.service);
    service_names_.push_back(named.name);
  }
  server_ = builder.BuildAndStart();
  if (!server_ || (address && port == 0)) {
    const std::string where = address ? address->ToString() : "no address";
    return absl::UnavailableError(StrCat("listen on ", where, ": refused; is it in use?"));
  }
  running_ = server_.get();
  SetServing(Serving::kNo);
  if (address) {
    config::Address bound = *address;
    bound.port = static_cast<uint16_t>(port);
    address_ = bound.ToString();
  }
  return absl::OkStatus();
}

void GrpcServer::Adopt(UniqueFd connection) {
  grpc::AddInsecureChannelFromFd(server_.get(), connection.Release());
}

void GrpcServer::SetServing(Serving serving) {
  grpc::HealthCheckServiceInterface* const health = server_->GetHealthCheckService();
  for (const std::string& name : service_names_) {
    health->SetServingStatus(name, serving == Serving::kYes);
  }
  health->SetServingStatus(serving == Serving::kYes);
}

void GrpcServer::Shutdown(std::chrono::system_clock::time_point deadline) {
  if (!server_) return;
  server_->Shutdown(deadline);
  server_->Wait();
}

void GrpcServer::CancelAll() {
  if (grpc::Server* const server = running_.load()) {
    grpc_server_cancel_all_calls(server->c_server());
  }
}

}  // namespace sandbroker::app

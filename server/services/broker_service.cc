#include "server/services/broker_service.h"

#include <memory>
#include <optional>
#include <utility>

#include "lib/base/labels.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/rpc/server_options.h"
#include "lib/rpc/stream_session.h"
#include "server/services/acquire_fields.h"
#include "server/services/exec_outbox.h"
#include "server/services/exec_session.h"
#include "server/services/execution_fields.h"
#include "server/services/fields.h"
#include "server/services/limits.h"
#include "server/services/run_call.h"
#include "server/services/translate.h"
#include "server/services/watch_session.h"

namespace sandbroker::services {
namespace {

// For a call that needs no coroutine: `fn(call, request)` answers at once.
template <class Request, class Response, class Fn>
grpc::ServerUnaryReactor* ServeNow(const rpc::Runtime& runtime, std::string_view method,
                                   grpc::CallbackServerContext* context, const Request* request,
                                   Response* response, Fn fn) {
  return rpc::ServeUnary(
      runtime, method, context, request, response,
      [fn](const rpc::CallContext& call, const Request& asked, rpc::Responder<Response> responder) {
        responder.Finish(fn(call, asked));
      });
}

absl::StatusOr<size_t> ReadPageSize(int32_t size) {
  if (size == 0) return kDefaultPageSize;
  if (size < 0 || size > kMaxPageSize) {
    return InvalidField("page_size", StrCat(size, " is outside 0 to ", kMaxPageSize));
  }
  return size;
}

}  // namespace

BrokerService::BrokerService(const rpc::Runtime& runtime, broker::Broker& broker,
                             const Authoriser& authoriser, ServiceSettings settings)
    : runtime_(runtime), broker_(broker), authoriser_(authoriser), settings_(std::move(settings)) {}

BrokerService::Unary* BrokerService::Acquire(Context* context, const v1::AcquireRequest* request,
                                             v1::AcquireResponse* response) {
  return rpc::ServeTask(
      runtime_, "Acquire", context, request, response,
      [this](const Call& call, const v1::AcquireRequest& asked) { return DoAcquire(call, asked); });
}

Task<absl::StatusOr<v1::AcquireResponse>> BrokerService::DoAcquire(
    Call call, const v1::AcquireRequest& request) {
  const auto who = authoriser_.Authorise(call);
  if (!who.ok()) co_return who.status();
  const auto spec = ReadAcquire(request);
  if (!spec.ok()) co_return spec.status();
  const auto acquired = co_await broker_.Acquire(*who, *spec, call.cancel);
  if (!acquired.ok()) co_return acquired.status();
  v1::AcquireResponse response;
  ToProto(*acquired, &response);
  co_return response;
}

BrokerService::Unary* BrokerService::Release(Context* context, const v1::ReleaseRequest* request,
                                             v1::ReleaseResponse* response) {
  return rpc::ServeTask(
      runtime_, "Release", context, request, response,
      [this](const Call& call, const v1::ReleaseRequest& asked) { return DoRelease(call, asked); });
}

Task<absl::StatusOr<v1::ReleaseResponse>> BrokerService::DoRelease(
    Call call, const v1::ReleaseRequest& request) {
  const auto who = authoriser_.Authorise(call);
  if (!who.ok()) co_return who.status();
  const absl::Status valid = CheckHandle(request.sandbox_id(), "sandbox_id");
  if (!valid.ok()) co_return valid;
  const auto released = co_await broker_.Release(*who, request.sandbox_id());
  if (!released.ok()) co_return released.status();
  v1::ReleaseResponse response;
  response.set_already_gone(released->already_gone);
  for (const std::string& id : released->ended_executions) response.add_ended_executions(id);
  co_return response;
}

BrokerService::Unary* BrokerService::ReleaseTaskSandboxes(
    Context* context, const v1::ReleaseTaskSandboxesRequest* request,
    v1::ReleaseTaskSandboxesResponse* response) {
  return rpc::ServeTask(runtime_, "ReleaseTaskSandboxes", context, request, response,
                        [this](const Call& call, const v1::ReleaseTaskSandboxesRequest& asked) {
                          return DoReleaseMatching(call, asked);
                        });
}

Task<absl::StatusOr<v1::ReleaseTaskSandboxesResponse>> BrokerService::DoReleaseMatching(
    Call call, const v1::ReleaseTaskSandboxesRequest& request) {
  const auto who = authoriser_.Authorise(call);
  if (!who.ok()) co_return who.status();
  auto selector = LabelSelector::Parse(request.label_selector(), "label_selector");
  if (!selector.ok()) co_return selector.status();
  if (selector->empty()) co_return InvalidField("label_selector", "is required");
  std::optional<WallTime> before;
  if (request.has_acquired_before()) {
    const auto read = ReadTimestamp(request.acquired_before(), "acquired_before");
    if (!read.ok()) co_return read.status();
    before = *read;
  }
  const auto items =
      co_await broker_.ReleaseMatching(*who, *std::move(selector), before, request.dry_run());
  if (!items.ok()) co_return items.status();
  v1::ReleaseTaskSandboxesResponse response;
  for (const broker::ReleaseItem& item : *items) ToProto(item, response.add_results());
  co_return response;
}

BrokerService::Unary* BrokerService::ReadTaskCapacity(Context* context,
                                                      const v1::ReadTaskCapacityRequest* request,
                                                      v1::ReadTaskCapacityResponse* response) {
  return ServeNow(runtime_, "ReadTaskCapacity", context, request, response,
                  [this](const Call& call, const v1::ReadTaskCapacityRequest& asked) {
                    return DoCapacity(call, asked);
                  });
}

absl::StatusOr<v1::ReadTaskCapacityResponse> BrokerService::DoCapacity(
    const Call& call, const v1::ReadTaskCapacityRequest& request) {
  const auto who = authoriser_.Authorise(call);
  if (!who.ok()) return who.status();
  const auto pools = broker_.Capacity(*who, request.pool());
  if (!pools.ok()) return pools.status();
  v1::ReadTaskCapacityResponse response;
  for (const broker::PoolCapacity& pool : *pools) ToProto(pool, response.add_pools());
  return response;
}

BrokerService::Unary* BrokerService::GetSandbox(Context* context,
                                                const v1::GetSandboxRequest* request,
                                                v1::GetSandboxResponse* response) {
  return rpc::ServeTask(
      runtime_, "GetSandbox", context, request, response,
      [this](const Call& call, const v1::GetSandboxRequest& asked) { return DoGet(call, asked); });
}

Task<absl::StatusOr<v1::GetSandboxResponse>> BrokerService::DoGet(
    Call call, const v1::GetSandboxRequest& request) {
  const auto who = authoriser_.Authorise(call);
  if (!who.ok()) co_return who.status();
  const absl::Status valid = CheckHandle(request.sandbox_id(), "sandbox_id");
  if (!valid.ok()) co_return valid;
  if (broker_.Unsettled(*who, request.sandbox_id())) {
    const absl::Status settled = co_await broker_.Settle(*who, request.sandbox_id(), call.cancel);
    if (!settled.ok()) co_return settled;
  }
  const auto sandbox = broker_.Get(*who, request.sandbox_id());
  if (!sandbox.ok()) co_return sandbox.status();
  v1::GetSandboxResponse response;
  ToProto(*sandbox, response.mutable_sandbox());
  co_return response;
}

BrokerService::Unary* BrokerService::ListSandboxes(Context* context,
                                                   const v1::ListSandboxesRequest* request,
                                                   v1::ListSandboxesResponse* response) {
  return ServeNow(runtime_, "ListSandboxes", context, request, response,
                  [this](const Call& call, const v1::ListSandboxesRequest& asked) {
                    return DoList(call, asked);
                  });
}

absl::StatusOr<v1::ListSandboxesResponse> BrokerService::DoList(
    const Call& call, const v1::ListSandboxesRequest& request) {
  const auto who = authoriser_.Authorise(call);
  if (!who.ok()) return who.status();
  const auto selector = LabelSelector::Parse(request.label_selector(), "label_selector");
  if (!selector.ok()) return selector.status();
  const auto page_size = ReadPageSize(request.page_size());
  if (!page_size.ok()) return page_size.status();
  const auto page = broker_.List(*who, *selector, *page_size, request.page_token());
  if (!page.ok()) return page.status();
  v1::ListSandboxesResponse response;
  for (const broker::SandboxView& view : page->sandboxes) ToProto(view, response.add_sandboxes());
  response.set_next_page_token(page->next_token);
  return response;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* BrokerService::WatchSandboxes(
    Context* context, const grpc::ByteBuffer* request) {
  auto outbox = std::make_unique<WatchOutbox>();
  WatchOutbox* const out = outbox.get();
  return rpc::ServerStreamSession<v1::WatchSandboxesRequest>::Start(
      runtime_, "WatchSandboxes", *context, WatchSession::kAhead / 2, *request, std::move(outbox),
      [this, out](rpc::StreamCore& stream) {
        return std::make_unique<WatchSession>(stream, out, broker_, authoriser_);
      });
}

BrokerService::Unary* BrokerService::RenewLeases(Context* context,
                                                 const v1::RenewLeasesRequest* request,
                                                 v1::RenewLeasesResponse* response) {
  return rpc::ServeTask(runtime_, "RenewLeases", context, request, response,
                        [this](const Call& call, const v1::RenewLeasesRequest& asked) {
                          return DoRenew(call, asked);
                        });
}

Task<absl::StatusOr<v1::RenewLeasesResponse>> BrokerService::DoRenew(
    Call call, const v1::RenewLeasesRequest& request) {
  const auto who = authoriser_.Authorise(call);
  if (!who.ok()) co_return who.status();
  const auto count = static_cast<size_t>(request.sandbox_ids_size());
  if (count == 0 || count > kMaxRenewals) {
    co_return InvalidField("sandbox_ids",
                           StrCat(count, " handles are outside 1 to ", kMaxRenewals));
  }
  std::vector<std::string> handles(request.sandbox_ids().begin(), request.sandbox_ids().end());
  const auto items = co_await broker_.Renew(*who, std::move(handles));
  v1::RenewLeasesResponse response;
  for (const broker::RenewItem& item : items) ToProto(item, response.add_results());
  co_return response;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* BrokerService::Exec(Context* context) {
  auto outbox = std::make_unique<ExecOutbox>();
  ExecOutbox* const out = outbox.get();
  // An eighth of the window: credit flows long before the agent runs out of it.
  const uint64_t report = settings_.output_window / 8;
  return rpc::StreamSession<v1::ExecRequest>::Start(
      runtime_, "Exec", *context, report, std::move(outbox), [this, out](rpc::StreamCore& stream) {
        return std::make_unique<ExecSession>(stream, out, broker_, authoriser_, runtime_,
                                             settings_);
      });
}

BrokerService::Unary* BrokerService::Run(Context* context, const v1::RunRequest* request,
                                         v1::RunResponse* response) {
  return rpc::ServeUnary(runtime_, "Run", context, request, response,
                         [this](const Call& call, const v1::RunRequest& asked,
                                rpc::Responder<v1::RunResponse> responder) {
                           DoRun(call, asked, std::move(responder));
                         });
}

void BrokerService::DoRun(const Call& call, const v1::RunRequest& request,
                          rpc::Responder<v1::RunResponse> responder) {
  const auto who = authoriser_.Authorise(call);
  if (!who.ok()) return responder.Finish(who.status());
  auto spec = ReadRun(request, settings_.max_log_bytes);
  if (!spec.ok()) return responder.Finish(spec.status());
  if (broker_.Unsettled(*who, spec->start.handle)) {
    runtime_.scope.Spawn("Run", RunWhenSettled(*who, *std::move(spec), request.stdin(), call.cancel,
                                               std::move(responder)));
    return;
  }
  RunCall::Begin(broker_, *who, *std::move(spec), request.stdin(), call.cancel,
                 std::move(responder));
}

Task<void> BrokerService::RunWhenSettled(broker::Principal who, RunSpec spec, std::string input,
                                         CancelToken cancel,
                                         rpc::Responder<v1::RunResponse> responder) {
  const absl::Status settled = co_await broker_.Settle(who, spec.start.handle, cancel);
  if (!settled.ok()) co_return responder.Finish(settled);
  RunCall::Begin(broker_, who, std::move(spec), std::move(input), cancel, std::move(responder));
}

BrokerService::Unary* BrokerService::GetServerInfo(Context* context,
                                                   const v1::GetServerInfoRequest* request,
                                                   v1::GetServerInfoResponse* response) {
  return ServeNow(
      runtime_, "GetServerInfo", context, request, response,
      [this](const Call& call, const v1::GetServerInfoRequest&) { return DoInfo(call); });
}

absl::StatusOr<v1::GetServerInfoResponse> BrokerService::DoInfo(const Call& call) {
  const auto who = authoriser_.Authorise(call);
  if (!who.ok()) return who.status();
  v1::GetServerInfoResponse response;
  response.set_version(settings_.version);
  response.set_replica_id(settings_.replica_id);
  v1::BackendInfo& backend = *response.add_backends();
  backend.set_name(broker_.backend().name());
  for (std::string& pool : broker_.backend().pools()) backend.add_pools(std::move(pool));
  for (std::string& ability : broker_.backend().capabilities()) {
    backend.add_capabilities(std::move(ability));
  }
  v1::ServerLimits& limits = *response.mutable_limits();
  limits.set_max_request_bytes(rpc::kMaxRequestBytes);
  limits.set_max_output_chunk_bytes(kMaxOutputChunkBytes);
  limits.set_default_log_bytes(settings_.default_log_bytes);
  limits.set_max_log_bytes(settings_.max_log_bytes);
  limits.set_window_bytes(settings_.output_window);
  limits.set_max_run_output_bytes(kMaxRunOutputBytes);
  ToProto(settings_.heartbeat_interval, limits.mutable_heartbeat_interval());
  ToProto(settings_.reattach_window, limits.mutable_reattach_window());
  ToProto(settings_.tombstone_time, limits.mutable_tombstone_time());
  limits.set_max_watchers(settings_.max_watchers);
  return response;
}

}  // namespace sandbroker::services

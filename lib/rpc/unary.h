// Serves unary calls on the loop. gRPC's thread makes a UnaryCall and posts; the handler runs on
// the loop and answers through a Responder, at once or later; cancellation arrives at the handler's
// CancelToken. Whatever the handler does, its caller gets exactly one answer.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <exception>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/async/task.h"
#include "lib/rpc/call_context.h"
#include "lib/rpc/runtime.h"

namespace sandbroker::rpc {

// Keeps itself alive until gRPC is done with it.
class UnaryCall final : public grpc::ServerUnaryReactor,
                        public std::enable_shared_from_this<UnaryCall> {
 public:
  // On gRPC's thread. `method` is a literal.
  static std::shared_ptr<UnaryCall> Create(const Runtime& runtime, std::string_view method,
                                           const grpc::CallbackServerContext& context);

  const CallContext& context() const { return context_; }
  // Loop thread. Only the first counts.
  void FinishOnce(const absl::Status& status);
  // For the log; the caller's answer comes from the Responder that the exception dropped.
  void LogEscaped(const char* what) const;

 private:
  UnaryCall(const Runtime& runtime, std::string_view method,
            const grpc::CallbackServerContext& context);
  void OnCancel() override;
  void OnDone() override { self_.reset(); }

  const Runtime runtime_;
  CallContext context_;
  CancelSource cancel_;
  bool finished_ = false;  // loop thread only
  std::shared_ptr<UnaryCall> self_;
};

// The right to answer one call. Dropped without an answer it answers INTERNAL, so that no call is
// ever left open. Loop thread only.
template <class Response>
class Responder {
 public:
  Responder(std::shared_ptr<UnaryCall> call, Response* response)
      : call_(std::move(call)), response_(response) {}
  Responder(Responder&& other) noexcept = default;
  Responder& operator=(Responder&&) = delete;
  ~Responder() {
    if (call_) Finish(absl::InternalError("the handler went away without an answer"));
  }

  bool answered() const { return call_ == nullptr; }
  // Filled in place before Finish(OK). Not to be touched after Finish.
  Response& response() { return *response_; }
  void Finish(const absl::Status& status) {
    const auto call = std::exchange(call_, nullptr);
    call->FinishOnce(status);
  }
  void Finish(absl::StatusOr<Response> result) {
    if (result.ok()) *response_ = *std::move(result);
    Finish(result.status());
  }

 private:
  std::shared_ptr<UnaryCall> call_;
  Response* response_;
};

// `fn` is called on the loop as fn(const CallContext&, const Request&, Responder<Response>). The
// request stays valid until the answer; the context until the last use of the call.
template <class Request, class Response, class Fn>
grpc::ServerUnaryReactor* ServeUnary(const Runtime& runtime, std::string_view method,
                                     grpc::CallbackServerContext* context, const Request* request,
                                     Response* response, Fn fn) {
  auto call = UnaryCall::Create(runtime, method, *context);
  runtime.loop.Post([call, request, response, fn = std::move(fn)] {
    try {
      fn(call->context(), *request, Responder<Response>(call, response));
    } catch (const std::exception& e) {
      call->LogEscaped(e.what());
    }
  });
  return call.get();
}

namespace internal {

template <class Request, class Response, class Fn>
Task<void> RunTask(std::shared_ptr<UnaryCall> call, const Request* request,
                   Responder<Response> responder, Fn fn) {
  try {
    Task<absl::StatusOr<Response>> task = fn(call->context(), *request);
    absl::StatusOr<Response> result = co_await std::move(task);
    responder.Finish(std::move(result));
  } catch (const std::exception& e) {
    call->LogEscaped(e.what());
  }
}

}  // namespace internal

// The same for a coroutine: fn(CallContext, const Request&) -> Task<StatusOr<Response>>. It belongs
// to the runtime's scope; `fn` lives as long as the coroutine does.
template <class Request, class Response, class Fn>
grpc::ServerUnaryReactor* ServeTask(const Runtime& runtime, std::string_view method,
                                    grpc::CallbackServerContext* context, const Request* request,
                                    Response* response, Fn fn) {
  auto call = UnaryCall::Create(runtime, method, *context);
  TaskScope& scope = runtime.scope;
  runtime.loop.Post([call, &scope, request, response, fn = std::move(fn)] {
    Responder<Response> responder(call, response);
    scope.Spawn(call->context().method,
                internal::RunTask<Request, Response, Fn>(call, request, std::move(responder), fn));
  });
  return call.get();
}

}  // namespace sandbroker::rpc

#include "lib/rpc/unary.h"

#include "lib/obs/log.h"
#include "lib/rpc/context_of.h"
#include "lib/rpc/status.h"

namespace sandbroker::rpc {

std::shared_ptr<UnaryCall> UnaryCall::Create(const Runtime& runtime, std::string_view method,
                                             const grpc::CallbackServerContext& context) {
  std::shared_ptr<UnaryCall> call(new UnaryCall(runtime, method, context));
  call->self_ = call;
  return call;
}

UnaryCall::UnaryCall(const Runtime& runtime, std::string_view method,
                     const grpc::CallbackServerContext& context)
    : runtime_(runtime), context_(ContextOf(context, method, runtime.loop)) {
  context_.cancel = cancel_.token();
}

void UnaryCall::FinishOnce(const absl::Status& status) {
  if (finished_) return;
  finished_ = true;
  // What the handler subscribed dies here and not on gRPC's thread.
  cancel_.token().OnCancel(nullptr);
  const grpc::Status answer = ToGrpcStatus(status, context_.method);
  runtime_.metrics.CountRpc(std::string(context_.method), CodeName(answer.error_code()));
  Finish(answer);
}

void UnaryCall::LogEscaped(const char* what) const {
  obs::Log(obs::Level::kError, "exception in a handler",
           {{"method", context_.method}, {"what", what}});
}

void UnaryCall::OnCancel() {
  runtime_.loop.Post([self = shared_from_this()] {
    if (!self->finished_) self->cancel_.Cancel();
  });
}

}  // namespace sandbroker::rpc

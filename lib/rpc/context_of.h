// Reads what a CallContext holds from gRPC's own context. On gRPC's thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>
#include <string_view>

#include "lib/rpc/call_context.h"

namespace sandbroker::rpc {

// `method` is a literal. The token is left as never cancelled.
CallContext ContextOf(const grpc::CallbackServerContext& context, std::string_view method,
                      const Clock& clock);

// "OK", "NOT_FOUND": label of a metric.
std::string CodeName(grpc::StatusCode code);

}  // namespace sandbroker::rpc

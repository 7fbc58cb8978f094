#include "lib/rpc/context_of.h"

#include "absl/status/status.h"

namespace sandbroker::rpc {
namespace {

// gRPC's deadline is on the wall clock; ours is monotonic, as it is only ever compared with now.
Time ToDeadline(std::chrono::system_clock::time_point deadline, const Clock& clock) {
  if (deadline == std::chrono::system_clock::time_point::max()) return kNever;
  return SaturatingAdd(clock.Now(), deadline - std::chrono::system_clock::now());
}

}  // namespace

CallContext ContextOf(const grpc::CallbackServerContext& context, std::string_view method,
                      const Clock& clock) {
  CallContext out;
  out.method = method;
  out.peer = context.peer();
  out.deadline = ToDeadline(context.deadline(), clock);
  return out;
}

std::string CodeName(grpc::StatusCode code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

}  // namespace sandbroker::rpc

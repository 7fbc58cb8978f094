// What a handler may know about the call it serves. Made on gRPC's thread, read on the loop.
#pragma once

#include <string>
#include <string_view>

#include "lib/async/cancel.h"
#include "lib/base/clock.h"

namespace sandbroker::rpc {

struct CallContext {
  // The method's name without its service, a literal: "Acquire".
  std::string_view method;
  // As gRPC writes it: "ipv4:127.0.0.1:50312", "unix:".
  std::string peer;
  // The caller's own; kNever if it set none. gRPC itself turns its expiry into a cancellation.
  Time deadline = kNever;
  // Cancelled when the caller cancels, its deadline passes or its connection is lost.
  CancelToken cancel;
};

}  // namespace sandbroker::rpc

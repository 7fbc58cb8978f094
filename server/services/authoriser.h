// Who calls, and whether they may. Every RPC asks before it does anything else.
#pragma once

#include "absl/status/statusor.h"
#include "lib/broker/core/types.h"
#include "lib/rpc/call_context.h"

namespace sandbroker::services {

class Authoriser {
 public:
  virtual ~Authoriser() = default;
  // Loop thread. Errors: UNAUTHENTICATED, NOT_AUTHORISED.
  virtual absl::StatusOr<broker::Principal> Authorise(const rpc::CallContext& call) const = 0;
};

// One built-in principal for whoever reaches the server; it serves on loopback and unix sockets.
class LocalAuthoriser final : public Authoriser {
 public:
  absl::StatusOr<broker::Principal> Authorise(const rpc::CallContext&) const override {
    return broker::Principal{"local", "default"};
  }
};

}  // namespace sandbroker::services

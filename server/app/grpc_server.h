// The gRPC side of the process: one server with our services, health (Watch included), reflection
// and channelz. Its threads are gRPC's own. Start, Shutdown: main thread.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/fd.h"
#include "lib/config/address.h"

namespace sandbroker::app {

// gRPC's own complaints go into our log. Once, before any server.
void RouteGrpcLog();

// Health answers for it by this name.
struct NamedService {
  std::string name;
  grpc::Service& service;
};

class GrpcServer {
 public:
  // Begins to serve; health says NOT_SERVING until SetServing. Without an address only what Adopt
  // brings is served. The services outlive this.
  absl::Status Start(const std::optional<config::Address>& address,
                     const std::vector<NamedService>& services);
  // With the port that was found for port 0; empty without an address.
  const std::string& address() const { return address_; }
  // Any thread, between Start and Shutdown. The descriptor is connected and non-blocking.
  void Adopt(UniqueFd connection);
  // What health answers, for the server as a whole and for each of its services. Any thread.
  enum class Serving { kYes, kNo };
  void SetServing(Serving serving);
  // No new calls; waits for those under way, cancels what is left at `deadline`, and waits for the
  // end of that. The loop must still run: it is what finishes the calls.
  void Shutdown(std::chrono::system_clock::time_point deadline);
  // Cancels all calls under way, also during Shutdown. Any thread.
  void CancelAll();

 private:
  std::unique_ptr<grpc::Server> server_;
  std::atomic<grpc::Server*> running_{nullptr};  // for CancelAll
  std::string address_;
  std::vector<std::string> service_names_;
};

}  // namespace sandbroker::app

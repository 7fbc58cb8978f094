// The broker's service behind a real gRPC server on loopback, over a FakeBackend: real reactors,
// real loop, scripted sandboxes. Tests talk to it with a plain stub and look behind it with OnLoop.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "lib/async/loop.h"
#include "lib/async/task_scope.h"
#include "lib/base/status.h"
#include "lib/broker/broker.h"
#include "lib/obs/metrics.h"
#include "sandbroker/v1/broker.grpc.pb.h"
#include "server/services/broker_service.h"
#include "tests/support/fake_backend.h"

namespace sandbroker::testing {

// Every wait of a test ends by then.
inline constexpr std::chrono::seconds kPatience{30};

// What a failed call carries.
struct CallError {
  grpc::StatusCode code;
  std::string reason;
  std::string field;  // of BadRequest
  bool retry = false;
  std::string domain;
};
CallError ErrorOf(const grpc::Status& status);

class ServiceFixture : public ::testing::Test {
 public:
  using Stub = v1::SandboxBroker::Stub;
  using ExecStream = grpc::ClientReaderWriter<v1::ExecRequest, v1::ExecResponse>;

 protected:
  ServiceFixture();
  explicit ServiceFixture(services::ServiceSettings settings,
                          std::unique_ptr<services::Authoriser> authoriser = nullptr);
  ~ServiceFixture() override;

  // Runs `fn` on the loop and waits for it.
  void OnLoop(const std::function<void()>& fn);
  // `holds` is asked on the loop until it does. False: not in time.
  bool Eventually(const std::function<bool()>& holds);
  // What every stream of every link opened from now on does.
  void OnOpen(std::function<void(std::shared_ptr<FakeStream>)> script);

  std::string Acquire();
  std::unique_ptr<Stub> NewStub() const;
  // Stops the server with calls open; answers how long it took.
  Duration Shutdown(Duration grace);

  static void SetDeadline(grpc::ClientContext* context);
  static v1::ExecRequest StartOf(const std::string& sandbox, bool input = false);
  static v1::RunRequest RunOf(const std::string& sandbox);

  Loop loop_;
  obs::Metrics metrics_;
  TaskScope scope_;
  FakeBackend backend_;
  MemoryReceipts receipts_;
  std::unique_ptr<broker::Broker> owned_broker_;
  broker::Broker& broker_;
  std::unique_ptr<services::Authoriser> authoriser_;
  services::BrokerService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
};

}  // namespace sandbroker::testing

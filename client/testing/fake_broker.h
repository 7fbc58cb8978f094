// A broker without sandboxes, for tests of what talks to one: it serves the contract on a loopback
// port and plays small programs by the name in argv[0] (see fake_broker.cc). Records what it was
// asked. Threads: gRPC's own; the accessors may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "grpcpp/server.h"
#include "sandbroker/v1/broker.grpc.pb.h"

namespace sandbroker::client::testing {

struct FakeRecord {
  std::vector<v1::AcquireRequest> acquires;
  std::vector<v1::ExecStart> starts;
  std::vector<v1::RunRequest> runs;
  std::vector<std::string> released;
  std::vector<v1::ReleaseTaskSandboxesRequest> bulk_releases;
  // Messages of the last Exec after its start.
  std::vector<v1::ExecRequest> messages;
  // Execs whose caller went away before the end.
  int abandoned = 0;
  // Acquires given up by their caller.
  int given_up = 0;
};

class FakeBroker final : public v1::SandboxBroker::Service {
 public:
  FakeBroker();
  ~FakeBroker() override;

  const std::string& address() const { return address_; }
  FakeRecord record();
  // Waits, up to 10 s, until `condition` holds for what was recorded.
  template <typename Condition>
  bool WaitFor(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return condition(record_); });
  }
  // From now on Release fails with this.
  void FailReleases(grpc::Status status);

 private:
  class Player;
  using ExecServerStream = grpc::ServerReaderWriter<v1::ExecResponse, v1::ExecRequest>;

  grpc::Status Acquire(grpc::ServerContext* context, const v1::AcquireRequest* request,
                       v1::AcquireResponse* response) override;
  grpc::Status Release(grpc::ServerContext* context, const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override;
  grpc::Status ReleaseTaskSandboxes(grpc::ServerContext* context,
                                    const v1::ReleaseTaskSandboxesRequest* request,
                                    v1::ReleaseTaskSandboxesResponse* response) override;
  grpc::Status ReadTaskCapacity(grpc::ServerContext* context,
                                const v1::ReadTaskCapacityRequest* request,
                                v1::ReadTaskCapacityResponse* response) override;
  grpc::Status ListSandboxes(grpc::ServerContext* context, const v1::ListSandboxesRequest* request,
                             v1::ListSandboxesResponse* response) override;
  // One sandbox, the snapshot's end, its removal. Then it drains, or waits for the caller to leave
  // when the selector is "wait".
  grpc::Status WatchSandboxes(grpc::ServerContext* context,
                              const v1::WatchSandboxesRequest* request,
                              grpc::ServerWriter<v1::WatchSandboxesResponse>* writer) override;
  grpc::Status RenewLeases(grpc::ServerContext* context, const v1::RenewLeasesRequest* request,
                           v1::RenewLeasesResponse* response) override;
  grpc::Status Exec(grpc::ServerContext* context, ExecServerStream* stream) override;
  grpc::Status Run(grpc::ServerContext* context, const v1::RunRequest* request,
                   v1::RunResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override;

  template <typename Change>
  void Record(Change change) {
    std::lock_guard lock(mutex_);
    change(record_);
    changed_.notify_all();
  }
  grpc::Status PlayCat(ExecServerStream& stream, Player& player);
  grpc::Status PlayWaiting(ExecServerStream& stream, Player& player, const std::string& name);
  static grpc::Status PlayPlain(Player& player, const std::string& name,
                                const std::string& argument);
  // False when the caller is gone.
  bool ReadMessage(ExecServerStream& stream, v1::ExecRequest& message);

  std::mutex mutex_;
  std::condition_variable changed_;
  FakeRecord record_;
  grpc::Status release_status_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

// A status as lib/rpc makes them, with ErrorInfo, RetryInfo and BadRequest where given.
grpc::Status ErrorStatus(grpc::StatusCode code, const std::string& reason,
                         const std::string& message, int retry_seconds = 0,
                         const std::string& field = "");

}  // namespace sandbroker::client::testing

// A connection to a broker, and sandboxes held through it. A Client is a cheap copy of one shared
// connection; any thread. All calls block until answered, without hidden deadlines.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sandbroker/client/error.h"
#include "sandbroker/client/execution.h"
#include "sandbroker/client/options.h"
#include "sandbroker/v1/broker.pb.h"

namespace sandbroker::client {

class Connection;
class SandboxLease;

inline constexpr char kDefaultAddress[] = "127.0.0.1:7443";

class Client {
 public:
  // "HOST:PORT" or "unix:PATH". UNAVAILABLE when no server answers within connect_timeout,
  // INVALID_ARGUMENT when it is no such address.
  static absl::StatusOr<Client> Connect(const std::string& address,
                                        const ConnectOptions& options = {});

  absl::StatusOr<SandboxLease> Acquire(const AcquireOptions& options = {},
                                       const CallOptions& call = {}) const;
  absl::StatusOr<v1::ReleaseResponse> Release(const std::string& sandbox_id,
                                              const CallOptions& call = {}) const;
  absl::StatusOr<v1::ReleaseTaskSandboxesResponse> ReleaseTaskSandboxes(
      const ReleaseTaskOptions& options, const CallOptions& call = {}) const;

  // The program's end and both outputs, capped. Neither a non-zero code nor any other typed end is
  // an error.
  absl::StatusOr<v1::RunResponse> Run(const std::string& sandbox_id, const Program& program,
                                      const RunOptions& options = {},
                                      const CallOptions& call = {}) const;
  // What fails, fails through the execution's Next.
  Execution Exec(const std::string& sandbox_id, const Program& program,
                 const ExecOptions& options = {}) const;
  Execution Exec(const std::string& sandbox_id, const Program& program, const ExecOptions& options,
                 ExecCallbacks callbacks) const;

  // Results are per item, in the order of the handles.
  absl::StatusOr<v1::RenewLeasesResponse> Renew(const std::vector<std::string>& sandbox_ids,
                                                const CallOptions& call = {}) const;
  absl::StatusOr<v1::Sandbox> Get(const std::string& sandbox_id,
                                  const CallOptions& call = {}) const;
  // All pages. An empty selector means all of the caller's tenant.
  absl::StatusOr<std::vector<v1::Sandbox>> List(const std::string& label_selector = "",
                                                const CallOptions& call = {}) const;
  // Sandboxes as List has them, then every change. Calls `on_event` here for each; false from it
  // ends the watch with OK. Otherwise returns what ended it: after CAPACITY and SERVER_DRAINING,
  // watch again.
  absl::Status Watch(const std::string& label_selector,
                     const std::function<bool(const v1::WatchSandboxesResponse&)>& on_event,
                     const CallOptions& call = {}) const;
  // Empty = all pools.
  absl::StatusOr<v1::ReadTaskCapacityResponse> Capacity(const std::string& pool = "",
                                                        const CallOptions& call = {}) const;
  absl::StatusOr<v1::GetServerInfoResponse> Info(const CallOptions& call = {}) const;

 private:
  explicit Client(std::shared_ptr<Connection> connection);

  std::shared_ptr<Connection> connection_;
};

// Owns one acquired sandbox: given back when this goes out of scope, as far as that is possible
// within release_timeout; what fails there is left to the lease. Open streams and running programs
// renew the lease by themselves. Not thread-safe, but const methods may run side by side.
class SandboxLease {
 public:
  SandboxLease(Client client, v1::AcquireResponse acquired, Duration release_timeout);
  SandboxLease(SandboxLease&& other) noexcept;
  SandboxLease& operator=(SandboxLease&& other) noexcept;
  SandboxLease(const SandboxLease&) = delete;
  SandboxLease& operator=(const SandboxLease&) = delete;
  ~SandboxLease();

  const std::string& id() const { return acquired_.sandbox().sandbox_id(); }
  const v1::Sandbox& sandbox() const { return acquired_.sandbox(); }
  // With where it came from and where the time went.
  const v1::AcquireResponse& acquired() const { return acquired_; }

  absl::StatusOr<v1::RunResponse> Run(const Program& program, const RunOptions& options = {},
                                      const CallOptions& call = {}) const;
  Execution Exec(const Program& program, const ExecOptions& options = {}) const;
  Execution Exec(const Program& program, const ExecOptions& options, ExecCallbacks callbacks) const;
  absl::StatusOr<v1::Lease> Renew(const CallOptions& call = {}) const;

  // Gives it back now. After an error the destructor does not try again.
  absl::StatusOr<v1::ReleaseResponse> Release(const CallOptions& call = {});
  // The sandbox stays; returns its handle.
  std::string Detach();

 private:
  void ReleaseQuietly() noexcept;

  Client client_;
  v1::AcquireResponse acquired_;
  Duration release_timeout_;
  bool owned_ = true;
};

}  // namespace sandbroker::client

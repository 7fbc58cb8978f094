// SandboxLease of client.h: who gives a sandbox back, and when.
#include <utility>

#include "client/error_details.h"
#include "sandbroker/client/client.h"

namespace sandbroker::client {

SandboxLease::SandboxLease(Client client, v1::AcquireResponse acquired, Duration release_timeout)
    : client_(std::move(client)),
      acquired_(std::move(acquired)),
      release_timeout_(release_timeout) {}

SandboxLease::SandboxLease(SandboxLease&& other) noexcept
    : client_(std::move(other.client_)),
      acquired_(std::move(other.acquired_)),
      release_timeout_(other.release_timeout_),
      owned_(std::exchange(other.owned_, false)) {}

SandboxLease& SandboxLease::operator=(SandboxLease&& other) noexcept {
  if (this != &other) {
    ReleaseQuietly();
    client_ = std::move(other.client_);
    acquired_ = std::move(other.acquired_);
    release_timeout_ = other.release_timeout_;
    owned_ = std::exchange(other.owned_, false);
  }
  return *this;
}

SandboxLease::~SandboxLease() { ReleaseQuietly(); }

void SandboxLease::ReleaseQuietly() noexcept {
  // What fails here the lease takes care of; there is nobody left to tell.
  if (owned_) (void)Release({.deadline = release_timeout_});
}

absl::StatusOr<v1::RunResponse> SandboxLease::Run(const Program& program, const RunOptions& options,
                                                  const CallOptions& call) const {
  return client_.Run(id(), program, options, call);
}

Execution SandboxLease::Exec(const Program& program, const ExecOptions& options) const {
  return client_.Exec(id(), program, options);
}

Execution SandboxLease::Exec(const Program& program, const ExecOptions& options,
                             ExecCallbacks callbacks) const {
  return client_.Exec(id(), program, options, std::move(callbacks));
}

absl::StatusOr<v1::Lease> SandboxLease::Renew(const CallOptions& call) const {
  absl::StatusOr<v1::RenewLeasesResponse> response = client_.Renew({id()}, call);
  if (!response.ok()) return response.status();
  if (response->results_size() != 1) return absl::InternalError("not one result for one handle");
  v1::RenewResult& result = *response->mutable_results(0);
  if (result.code() != 0) {
    return WithReason(static_cast<absl::StatusCode>(result.code()), result.message(),
                      result.reason());
  }
  return std::move(*result.mutable_lease());
}

absl::StatusOr<v1::ReleaseResponse> SandboxLease::Release(const CallOptions& call) {
  owned_ = false;
  return client_.Release(id(), call);
}

std::string SandboxLease::Detach() {
  owned_ = false;
  return id();
}

}  // namespace sandbroker::client

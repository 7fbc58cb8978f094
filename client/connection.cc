#include "client/connection.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "lib/base/strings.h"

namespace sandbroker::client {
namespace {

// Above the largest message of the contract: 4 MiB of argv and what goes with it.
constexpr int kMaxMessageBytes = 5 * 1024 * 1024;

int Millis(Duration duration) {
  const int64_t count = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::clamp<int64_t>(count, 1, std::numeric_limits<int>::max()));
}

grpc::ChannelArguments ArgumentsFor(const ConnectOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  if (options.keepalive_interval > Duration::zero()) {
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(options.keepalive_interval));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(options.keepalive_timeout));
  }
  // A broker that was restarted is found again within a second or so.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  // A broker on loopback is not reached through the environment's web proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Each client has its own connection: another one's failures and back-off are not ours.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!options.user_agent.empty()) arguments.SetUserAgentPrefix(options.user_agent);
  return arguments;
}

absl::Status InvalidAddress(const std::string& address, const char* what) {
  return absl::InvalidArgumentError(
      StrCat("address \"", address, "\": ", what, " (HOST:PORT or unix:PATH)"));
}

}  // namespace

absl::StatusOr<std::string> TargetOf(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) {
    if (absl::StripPrefix(absl::StripPrefix(address, "unix:"), "//").empty()) {
      return InvalidAddress(address, "the path is missing");
    }
    return address;
  }
  if (absl::StrContains(address, "://")) return InvalidAddress(address, "is a URL");
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return InvalidAddress(address, "no host and port");
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return InvalidAddress(address, "the port is not 1 to 65535");
  }
  return StrCat("dns:", address);
}

void SetDeadline(grpc::ClientContext& context, std::optional<Duration> deadline) {
  if (!deadline) return;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(*deadline));
}

absl::StatusOr<std::shared_ptr<Connection>> Connection::Open(const std::string& address,
                                                             const ConnectOptions& options) {
  absl::StatusOr<std::string> target = TargetOf(address);
  if (!target.ok()) return target.status();
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(*target, grpc::InsecureChannelCredentials(), ArgumentsFor(options));
  const auto until =
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(options.connect_timeout);
  while (true) {
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return std::make_shared<Connection>(std::move(channel));
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) {
      return absl::UnavailableError(StrCat("no server answers at ", address));
    }
    if (!channel->WaitForStateChange(state, until)) {
      return absl::UnavailableError(StrCat("no server answers at ", address, " within ",
                                           Millis(options.connect_timeout), " ms"));
    }
  }
}

}  // namespace sandbroker::client

#include "server/app/settings.h"

#include <unistd.h>

#include <filesystem>

#include "lib/base/strings.h"

namespace sandbroker::app {
namespace {

constexpr std::chrono::seconds kLookJitter(2);

}  // namespace

std::string AgentPath(const config::ServerConfig& server) {
  if (!server.agent.empty()) return server.agent;
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (self.parent_path() / "sandbroker-agent").string();
}

absl::Status CheckAgent(const std::string& path) {
  if (access(path.c_str(), X_OK) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      StrCat("the agent ", path, " is missing or not executable; name it with --agent"));
}

local::LocalSettings ToLocalSettings(const config::Config& config) {
  local::LocalSettings settings;
  settings.state_dir = config.server.state_dir;
  settings.agent_path = AgentPath(config.server);
  settings.bwrap_path = config.local.bwrap;
  settings.uid_first = config.local.uid_first;
  settings.uid_count = config.local.uid_count;
  settings.cgroup_parent = config.local.cgroup;
  settings.start_bound = config.local.start_bound;
  settings.relink_bound = config.local.relink_bound;
  settings.warm_backstop = config.server.min_backstop;
  settings.keep_sandboxes = config.drain.keep_sandboxes;
  for (const auto& [name, from] : config.templates) {
    local::TemplateSettings& to = settings.templates[name];
    to.name = name;
    to.rootfs = from.rootfs;
    to.workspace_bytes = from.workspace.bytes;
    to.tmp_bytes = from.tmp.bytes;
    to.memory_bytes = from.memory.bytes;
    to.pids = from.pids;
    to.advisory_limits = from.limits == "advisory";
    to.open_files = from.open_files;
    to.env.assign(from.env.begin(), from.env.end());
  }
  for (const auto& [name, from] : config.pools) {
    if (!from.enabled) continue;
    local::PoolSettings& to = settings.pools.emplace_back();
    to.name = name;
    to.template_name = from.template_name;
    to.warm = from.warm;
    to.limit = from.limit;
    to.max_waiting = from.max_waiting;
    to.max_starting = from.max_starting;
  }
  return settings;
}

broker::BrokerSettings ToBrokerSettings(const config::Config& config, std::string replica_id) {
  broker::BrokerSettings settings;
  settings.replica_id = std::move(replica_id);
  settings.output_window = config.server.output_window.bytes;
  settings.max_streams_per_sandbox = config.server.max_streams_per_sandbox;
  settings.lease.margin = config.server.lease_margin;
  settings.lease.min_backstop = config.server.min_backstop;
  settings.receipt_retention = config.server.receipt_retention;
  // Replicas look at the same leases; one of them deletes, the others find it done.
  if (config.server.backend == "kubernetes") settings.look_jitter = kLookJitter;
  return settings;
}

link::LinkSettings ToLinkSettings(const config::Config& config) {
  link::LinkSettings settings;
  settings.heartbeat_interval = config.server.heartbeat_interval;
  return settings;
}

services::ServiceSettings ToServiceSettings(const config::Config& config, std::string replica_id) {
  services::ServiceSettings settings;
  settings.version = SANDBROKER_VERSION;
  settings.replica_id = std::move(replica_id);
  settings.heartbeat_interval = config.server.heartbeat_interval;
  settings.output_window = config.server.output_window.bytes;
  settings.max_watchers = static_cast<uint32_t>(broker::BrokerSettings().max_watches);
  return settings;
}

obs::LogFormat ToLogFormat(const config::LogConfig& log) {
  return log.format == "json" ? obs::LogFormat::kJson : obs::LogFormat::kText;
}

obs::Level ToLogLevel(const config::LogConfig& log) {
  if (log.level == "debug") return obs::Level::kDebug;
  if (log.level == "warning") return obs::Level::kWarning;
  if (log.level == "error") return obs::Level::kError;
  return obs::Level::kInfo;
}

std::optional<config::Address> ToAddress(const std::string& text) {
  if (text.empty()) return std::nullopt;
  absl::StatusOr<config::Address> address = config::ParseAddress(text);
  if (!address.ok()) return std::nullopt;
  return *std::move(address);
}

std::string DescribeIsolation(const config::Config& config) {
  const config::LocalConfig& local = config.local;
  const std::string uids = geteuid() == 0 ? StrCat("a host uid each from ", local.uid_first, " to ",
                                                   uint64_t{local.uid_first} + local.uid_count - 1)
                                          : StrCat("all under uid ", geteuid());
  return StrCat("bubblewrap, no network, ", uids);
}

}  // namespace sandbroker::app

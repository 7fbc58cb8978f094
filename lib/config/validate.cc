// What a configuration must fulfil before anything is started. One function a section.
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/config/address.h"
#include "lib/config/config.h"

namespace sandbroker::config {
namespace {

constexpr size_t kMaxUnixPath = 107;  // sun_path without its NUL
constexpr size_t kMaxName = 63;

absl::Status Bad(std::string_view knob, std::string_view why) {
  return absl::InvalidArgumentError(StrCat(knob, ": ", why));
}

absl::Status CheckCount(std::string_view knob, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Bad(knob, StrCat(value, " is not from ", low, " to ", high));
}

absl::Status CheckDuration(std::string_view knob, Duration value, Duration low, Duration high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Bad(knob, StrCat(FormatDuration(value), " is not from ", FormatDuration(low), " to ",
                          FormatDuration(high)));
}

absl::Status CheckSize(std::string_view knob, ByteSize value, ByteSize low, ByteSize high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Bad(knob, StrCat(FormatByteSize(value), " is not from ", FormatByteSize(low), " to ",
                          FormatByteSize(high)));
}

// Without TLS and authentication only this machine may talk to us.
absl::Status CheckAddress(std::string_view knob, const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) return Bad(knob, MessageOf(address.status()));
  if (!address->IsLoopback()) {
    return Bad(knob, StrCat(address->ToString(),
                            " is not a loopback address (127.0.0.0/8 or [::1]); without TLS "
                            "nothing else is served"));
  }
  return absl::OkStatus();
}

absl::Status CheckOneOf(std::string_view knob, std::string_view value,
                        std::initializer_list<std::string_view> allowed) {
  for (const std::string_view one : allowed) {
    if (value == one) return absl::OkStatus();
  }
  return Bad(knob, StrCat("'", value.substr(0, 64), "' is none of ", StrJoin(allowed, ", ")));
}

// Lower-case letters, digits and inner dashes: what Kubernetes takes as a name, too.
absl::Status CheckName(std::string_view section, const std::string& name) {
  bool good = !name.empty() && name.size() <= kMaxName && name.front() != '-' && name.back() != '-';
  for (const char c : name) {
    good = good && (absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-');
  }
  if (good) return absl::OkStatus();
  return Bad(section, StrCat("the name '", name.substr(0, kMaxName),
                             "' is not 1 to 63 of a-z, 0-9 and inner dashes"));
}

absl::Status CheckEnvName(const std::string& knob, const std::string& name) {
  bool good = !name.empty() && !absl::ascii_isdigit(name.front());
  for (const char c : name) good = good && (absl::ascii_isalnum(c) || c == '_');
  if (good) return absl::OkStatus();
  return Bad(knob, StrCat("'", name.substr(0, 64), "' is no name of a variable"));
}

absl::Status CheckServer(const ServerConfig& server) {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  using std::chrono::minutes;
  using std::chrono::seconds;
  if (server.listen.empty() && server.unix_socket.empty()) {
    return Bad("server.listen", "off, and server.unix_socket is empty: nothing to serve on");
  }
  SANDBROKER_RETURN_IF_ERROR(CheckAddress("server.listen", server.listen));
  SANDBROKER_RETURN_IF_ERROR(CheckAddress("server.admin", server.admin));
  if (server.unix_socket.size() > kMaxUnixPath) {
    return Bad("server.unix_socket",
               "longer than the 107 bytes that a unix socket's path can have");
  }
  if (server.state_dir.empty()) {
    return Bad("server.state_dir", "not set, and neither XDG_STATE_HOME nor HOME is");
  }
  SANDBROKER_RETURN_IF_ERROR(
      CheckCount("server.blocking_threads", server.blocking_threads, 1, 256));
  SANDBROKER_RETURN_IF_ERROR(CheckCount("server.blocking_jobs", server.blocking_jobs, 16, 1000000));
  SANDBROKER_RETURN_IF_ERROR(CheckDuration("server.heartbeat_interval", server.heartbeat_interval,
                                           milliseconds(50), minutes(5)));
  SANDBROKER_RETURN_IF_ERROR(CheckSize("server.output_window", server.output_window,
                                       ByteSize{64 << 10}, ByteSize{64 << 20}));
  SANDBROKER_RETURN_IF_ERROR(
      CheckCount("server.max_streams_per_sandbox", server.max_streams_per_sandbox, 1, 1000000));
  SANDBROKER_RETURN_IF_ERROR(
      CheckDuration("server.lease_margin", server.lease_margin, Duration(0), minutes(10)));
  SANDBROKER_RETURN_IF_ERROR(
      CheckDuration("server.min_backstop", server.min_backstop, seconds(1), hours(24)));
  return CheckDuration("server.receipt_retention", server.receipt_retention, seconds(1),
                       hours(24 * 365));
}

absl::Status CheckLogAndDrain(const Config& config) {
  SANDBROKER_RETURN_IF_ERROR(CheckOneOf("log.format", config.log.format, {"text", "json"}));
  SANDBROKER_RETURN_IF_ERROR(
      CheckOneOf("log.level", config.log.level, {"debug", "info", "warning", "error"}));
  SANDBROKER_RETURN_IF_ERROR(
      CheckDuration("drain.delay", config.drain.delay, Duration(0), std::chrono::minutes(10)));
  return CheckDuration("drain.grace", config.drain.grace, Duration(0), std::chrono::hours(1));
}

absl::Status CheckTemplate(const std::string& name, const TemplateConfig& settings) {
  SANDBROKER_RETURN_IF_ERROR(CheckName("templates", name));
  const std::string knob = StrCat("templates.", name);
  constexpr ByteSize kSmallest{1 << 20};
  constexpr ByteSize kLargest{1ull << 40};
  constexpr ByteSize kSmallestMemory{4 << 20};
  SANDBROKER_RETURN_IF_ERROR(
      CheckSize(StrCat(knob, ".workspace"), settings.workspace, kSmallest, kLargest));
  SANDBROKER_RETURN_IF_ERROR(CheckSize(StrCat(knob, ".tmp"), settings.tmp, kSmallest, kLargest));
  if (settings.memory.bytes != 0) {
    SANDBROKER_RETURN_IF_ERROR(
        CheckSize(StrCat(knob, ".memory"), settings.memory, kSmallestMemory, kLargest));
  }
  if (settings.pids != 0) {
    SANDBROKER_RETURN_IF_ERROR(CheckCount(StrCat(knob, ".pids"), settings.pids, 16, 4194304));
  }
  SANDBROKER_RETURN_IF_ERROR(
      CheckCount(StrCat(knob, ".open_files"), settings.open_files, 256, 1048576));
  SANDBROKER_RETURN_IF_ERROR(
      CheckOneOf(StrCat(knob, ".limits"), settings.limits, {"enforced", "advisory"}));
  for (const auto& [variable, value] : settings.env) {
    SANDBROKER_RETURN_IF_ERROR(CheckEnvName(StrCat(knob, ".env"), variable));
  }
  return absl::OkStatus();
}

absl::Status CheckPool(const std::string& name, const PoolConfig& pool, const Config& config) {
  SANDBROKER_RETURN_IF_ERROR(CheckName("pools", name));
  const std::string knob = StrCat("pools.", name);
  if (!config.templates.contains(pool.template_name)) {
    return Bad(StrCat(knob, ".template"),
               StrCat("there is no template '", pool.template_name.substr(0, 64), "'"));
  }
  if (!pool.warm_pool.empty()) {
    SANDBROKER_RETURN_IF_ERROR(CheckName(StrCat(knob, ".warm_pool"), pool.warm_pool));
  }
  SANDBROKER_RETURN_IF_ERROR(CheckCount(StrCat(knob, ".limit"), pool.limit, 1, 100000));
  SANDBROKER_RETURN_IF_ERROR(CheckCount(StrCat(knob, ".warm"), pool.warm, 0, pool.limit));
  SANDBROKER_RETURN_IF_ERROR(CheckCount(StrCat(knob, ".max_waiting"), pool.max_waiting, 0, 100000));
  return CheckCount(StrCat(knob, ".max_starting"), pool.max_starting, 1, 256);
}

absl::Status CheckLocal(const Config& config) {
  const LocalConfig& local = config.local;
  uint64_t sandboxes = 0;
  for (const auto& [name, pool] : config.pools) sandboxes += pool.enabled ? pool.limit : 0;
  if (local.bwrap.empty()) return Bad("local.bwrap", "empty");
  // Below 1000 are the system's own accounts; the upper end leaves 2^32 - 1 (no uid) alone.
  SANDBROKER_RETURN_IF_ERROR(CheckCount("local.uid_first", local.uid_first, 1000, 4000000000));
  SANDBROKER_RETURN_IF_ERROR(CheckCount("local.uid_count", local.uid_count, 1, 200000000));
  if (local.uid_count < sandboxes) {
    return Bad("local.uid_count", StrCat(local.uid_count, " is less than the ", sandboxes,
                                         " sandboxes that pools.*.limit add up to"));
  }
  if (!local.cgroup.empty() &&
      (local.cgroup.front() != '/' || local.cgroup.find("..") != std::string::npos)) {
    return Bad("local.cgroup", "is a path from the root of the cgroups, such as /sandboxes");
  }
  SANDBROKER_RETURN_IF_ERROR(CheckDuration("local.start_bound", local.start_bound,
                                           std::chrono::milliseconds(100), std::chrono::hours(1)));
  return CheckDuration("local.relink_bound", local.relink_bound, Duration(0),
                       std::chrono::hours(24));
}

absl::Status CheckKubernetes(const KubernetesConfig& kubernetes) {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  if (!kubernetes.space.empty()) {
    SANDBROKER_RETURN_IF_ERROR(CheckName("kubernetes.namespace", kubernetes.space));
  }
  SANDBROKER_RETURN_IF_ERROR(CheckName("kubernetes.key_secret", kubernetes.key_secret));
  if (kubernetes.kubeconfig.empty() && !kubernetes.context.empty()) {
    return Bad("kubernetes.context", "is set, but kubernetes.kubeconfig is not");
  }
  SANDBROKER_RETURN_IF_ERROR(CheckCount("kubernetes.agent_port", kubernetes.agent_port, 1, 65535));
  SANDBROKER_RETURN_IF_ERROR(CheckDuration("kubernetes.request_bound", kubernetes.request_bound,
                                           milliseconds(100), hours(1)));
  SANDBROKER_RETURN_IF_ERROR(
      CheckDuration("kubernetes.dial_bound", kubernetes.dial_bound, milliseconds(100), hours(1)));
  return CheckDuration("kubernetes.relink_bound", kubernetes.relink_bound, Duration(0), hours(24));
}

}  // namespace

absl::Status Validate(const Config& config) {
  SANDBROKER_RETURN_IF_ERROR(CheckServer(config.server));
  SANDBROKER_RETURN_IF_ERROR(CheckLogAndDrain(config));
  for (const auto& [name, settings] : config.templates) {
    SANDBROKER_RETURN_IF_ERROR(CheckTemplate(name, settings));
  }
  for (const auto& [name, pool] : config.pools) {
    SANDBROKER_RETURN_IF_ERROR(CheckPool(name, pool, config));
  }
  SANDBROKER_RETURN_IF_ERROR(
      CheckOneOf("server.backend", config.server.backend, {"local", "kubernetes"}));
  if (config.server.backend == "kubernetes") return CheckKubernetes(config.kubernetes);
  return CheckLocal(config);
}

}  // namespace sandbroker::config

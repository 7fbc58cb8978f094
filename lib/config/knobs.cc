// The tables, in the order in which --print-config and --help show them.
#include "lib/config/knobs.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"

#include "lib/base/strings.h"

namespace sandbroker::config {
namespace {

// The lambda's parameter is `c` in all rows; FIELD is what follows it.
#define SANDBROKER_SLOT(OWNER, FIELD) [](OWNER& c) -> Slot { return &c.FIELD; }
#define SERVER(FIELD) SANDBROKER_SLOT(Config, FIELD)

constexpr Knob<Config> kServerKnobs[] = {
    {"server", "backend", "backend", "local | kubernetes: where sandboxes come from",
     SERVER(server.backend)},
    {"server", "listen", "listen", "loopback HOST:PORT of the API; port 0 = any free; off = none",
     SERVER(server.listen)},
    {"server", "unix_socket", "unix", "path of a unix socket that serves the API as well",
     SERVER(server.unix_socket)},
    {"server", "admin", "admin", "loopback HOST:PORT of /metrics /healthz /readyz; off = none",
     SERVER(server.admin)},
    {"server", "state_dir", "state-dir", "folder of lock, key and receipts",
     SERVER(server.state_dir)},
    {"server", "port_file", "port-file", "gets HOST:PORT once the server serves",
     SERVER(server.port_file)},
    {"server", "agent", "agent", "the static sandbroker-agent; empty = beside this program",
     SERVER(server.agent)},
    {"server", "blocking_threads", "blocking-threads", "threads for work that blocks",
     SERVER(server.blocking_threads)},
    {"server", "blocking_jobs", "blocking-jobs", "most jobs waiting for those threads or running",
     SERVER(server.blocking_jobs)},
    {"server", "heartbeat_interval", "heartbeat-interval",
     "silence after which an agent is asked; three make it lost",
     SERVER(server.heartbeat_interval)},
    {"server", "output_window", "output-window", "output of one execution under way to its caller",
     SERVER(server.output_window)},
    {"server", "max_streams_per_sandbox", "max-streams-per-sandbox",
     "most open Exec and Run calls of one sandbox", SERVER(server.max_streams_per_sandbox)},
    {"server", "lease_margin", "lease-margin", "from a lease's end until it is acted on",
     SERVER(server.lease_margin)},
    {"server", "min_backstop", "min-backstop",
     "shortest time beyond its lease before an agent without a broker ends itself",
     SERVER(server.min_backstop)},
    {"server", "receipt_retention", "receipt-retention",
     "how long a receipt is kept after its sandbox is gone", SERVER(server.receipt_retention)},
    {"log", "format", "log-format", "text | json", SERVER(log.format)},
    {"log", "level", "log-level", "debug | info | warning | error", SERVER(log.level)},
    {"drain", "delay", "drain-delay", "from not ready to the end of service", SERVER(drain.delay)},
    {"drain", "grace", "drain-grace", "for calls under way after that", SERVER(drain.grace)},
    {"drain", "keep_sandboxes", "keep-sandboxes",
     "true = leave sandboxes to the next broker instead of ending them",
     SERVER(drain.keep_sandboxes)},
    {"local", "bwrap", "bwrap", "bubblewrap: a path or a name in PATH", SERVER(local.bwrap)},
    {"local", "uid_first", "uid-first", "as root: first host uid for sandboxes",
     SERVER(local.uid_first)},
    {"local", "uid_count", "uid-count", "as root: how many uids follow it",
     SERVER(local.uid_count)},
    {"local", "cgroup", "cgroup", "parent of the sandboxes' cgroups; empty = this process's own",
     SERVER(local.cgroup)},
    {"local", "start_bound", "start-bound", "from a sandbox's start to its agent's first answer",
     SERVER(local.start_bound)},
    {"local", "relink_bound", "relink-bound", "how long a lost link is dialled again",
     SERVER(local.relink_bound)},
    {"kubernetes", "kubeconfig", "kubeconfig", "access as kubectl has it; empty = in-cluster",
     SERVER(kubernetes.kubeconfig)},
    {"kubernetes", "context", "kube-context", "one of its contexts; empty = the current one",
     SERVER(kubernetes.context)},
    {"kubernetes", "namespace", "namespace", "of claims and pods; empty = the context's",
     SERVER(kubernetes.space)},
    {"kubernetes", "agent_port", "agent-port", "where the agent listens in every pod",
     SERVER(kubernetes.agent_port)},
    {"kubernetes", "key_secret", "key-secret", "Secret of the keys; made if it is not there",
     SERVER(kubernetes.key_secret)},
    {"kubernetes", "request_bound", "request-bound", "longest time of one request to the API",
     SERVER(kubernetes.request_bound)},
    {"kubernetes", "dial_bound", "dial-bound", "from a ready pod to its agent's first answer",
     SERVER(kubernetes.dial_bound)},
    {"kubernetes", "relink_bound", "pod-relink-bound",
     "how long a pod's lost link is dialled again", SERVER(kubernetes.relink_bound)},
};

constexpr Knob<TemplateConfig> kTemplateKnobs[] = {
    {"", "rootfs", "", "read-only root; empty = the host's /usr and a minimal /etc",
     SANDBROKER_SLOT(TemplateConfig, rootfs)},
    {"", "workspace", "", "size of /workspace", SANDBROKER_SLOT(TemplateConfig, workspace)},
    {"", "tmp", "", "size of /tmp and of /dev/shm", SANDBROKER_SLOT(TemplateConfig, tmp)},
    {"", "memory", "", "most memory of a sandbox's programs; 0 = no limit",
     SANDBROKER_SLOT(TemplateConfig, memory)},
    {"", "pids", "", "most processes and threads of a sandbox; 0 = 4096",
     SANDBROKER_SLOT(TemplateConfig, pids)},
    {"", "limits", "", "enforced | advisory: what becomes of limits this host can't enforce",
     SANDBROKER_SLOT(TemplateConfig, limits)},
    {"", "open_files", "", "most open descriptors of one program",
     SANDBROKER_SLOT(TemplateConfig, open_files)},
};

constexpr Knob<PoolConfig> kPoolKnobs[] = {
    {"", "enabled", "", "false = the pool does not exist", SANDBROKER_SLOT(PoolConfig, enabled)},
    {"", "template", "", "name of a template", SANDBROKER_SLOT(PoolConfig, template_name)},
    {"", "warm_pool", "", "on Kubernetes: the SandboxWarmPool; empty = of the pool's name",
     SANDBROKER_SLOT(PoolConfig, warm_pool)},
    {"", "warm", "", "started ahead and waiting", SANDBROKER_SLOT(PoolConfig, warm)},
    {"", "limit", "", "most sandboxes at once", SANDBROKER_SLOT(PoolConfig, limit)},
    {"", "max_waiting", "", "most callers queued", SANDBROKER_SLOT(PoolConfig, max_waiting)},
    {"", "max_starting", "", "most being started", SANDBROKER_SLOT(PoolConfig, max_starting)},
};

#undef SERVER
#undef SANDBROKER_SLOT

template <class T>
absl::Status Assign(T* target, absl::StatusOr<T> value) {
  if (!value.ok()) return value.status();
  *target = *std::move(value);
  return absl::OkStatus();
}

struct Setter {
  std::string_view text;
  absl::Status operator()(std::string* target) const {
    *target = std::string(text);
    return absl::OkStatus();
  }
  absl::Status operator()(uint32_t* target) const { return Assign(target, ParseCount(text)); }
  absl::Status operator()(Duration* target) const { return Assign(target, ParseDuration(text)); }
  absl::Status operator()(ByteSize* target) const { return Assign(target, ParseByteSize(text)); }
  absl::Status operator()(bool* target) const { return Assign(target, ParseBool(text)); }
};

struct Printer {
  std::string operator()(const std::string* value) const { return *value; }
  std::string operator()(const uint32_t* value) const { return std::to_string(*value); }
  std::string operator()(const Duration* value) const { return FormatDuration(*value); }
  std::string operator()(const ByteSize* value) const { return FormatByteSize(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
};

}  // namespace

std::span<const Knob<Config>> ServerKnobs() { return kServerKnobs; }
std::span<const Knob<TemplateConfig>> TemplateKnobs() { return kTemplateKnobs; }
std::span<const Knob<PoolConfig>> PoolKnobs() { return kPoolKnobs; }

absl::Status SetSlot(Slot slot, std::string_view text) { return std::visit(Setter{text}, slot); }

std::string PrintSlot(Slot slot) { return std::visit(Printer{}, slot); }

std::string EnvironmentName(std::string_view flag) {
  std::string name = StrCat("SANDBROKER_", absl::AsciiStrToUpper(ToAbsl(flag)));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace sandbroker::config

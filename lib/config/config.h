// Everything that can be told to the server, as one plain struct: defaults here, units in types, a
// sentence a field. Filled by load.h, checked once by Validate. Paths are absolute after loading.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "lib/base/clock.h"
#include "lib/config/units.h"

namespace sandbroker::config {

struct ServerConfig {
  // Where sandboxes come from: local | kubernetes.
  std::string backend = "local";
  // TCP address of the API; empty or "off" = none. Port 0 takes any free one.
  std::string listen = "127.0.0.1:7443";
  // Path of a unix socket that serves the API as well; empty = none.
  std::string unix_socket;
  // HTTP address of /metrics, /healthz and /readyz; empty or "off" = none.
  std::string admin;
  // Lock, key and receipts. Default: see DefaultStateDir in load.h.
  std::string state_dir;
  // Gets "HOST:PORT\n" (or "unix:PATH\n") once the server serves; empty = none.
  std::string port_file;
  // The static sandbroker-agent; empty = beside sandbrokerd.
  std::string agent;
  // Threads for work that blocks, and how many jobs may wait for them or run.
  uint32_t blocking_threads = 4;
  uint32_t blocking_jobs = 4096;
  // Silence on a link after which its agent is asked for a sign of life; three make it lost.
  Duration heartbeat_interval = std::chrono::seconds(10);
  // Output of one execution that may be under way to a caller.
  ByteSize output_window{1ull << 20};
  // Open Exec and Run calls of one sandbox.
  uint32_t max_streams_per_sandbox = 1024;
  // A lease is looked at this long after its end, because clocks may differ by as much.
  Duration lease_margin = std::chrono::seconds(5);
  // A sandbox outlives its lease by at least this before its agent ends it without a broker.
  Duration min_backstop = std::chrono::minutes(10);
  // A receipt is kept this long after its sandbox is gone.
  Duration receipt_retention = std::chrono::hours(24);
};

struct LogConfig {
  std::string format = "text";  // text | json
  std::string level = "info";   // debug | info | warning | error
};

struct DrainConfig {
  // Between "not ready" and the end of service, for load balancers to look elsewhere.
  Duration delay{0};
  // For calls that are under way after that.
  Duration grace = std::chrono::seconds(20);
  // Leave the sandboxes and what runs in them to the next broker of this state directory.
  bool keep_sandboxes = false;
};

struct LocalConfig {
  // bubblewrap, a path or a name in PATH.
  std::string bwrap = "bwrap";
  // As root, each sandbox runs under a host uid of its own from this range.
  uint32_t uid_first = 2000000;
  uint32_t uid_count = 4096;
  // Below which cgroup those of the sandboxes are made, as a path from the hierarchy's root such
  // as /sandboxes; empty = the one this process was started in.
  std::string cgroup;
  // From the start of a sandbox to its agent's first answer.
  Duration start_bound = std::chrono::seconds(20);
  // For how long a lost link is dialled again before the sandbox is ended.
  Duration relink_bound = std::chrono::seconds(30);
};

// Read when server.backend is kubernetes.
struct KubernetesConfig {
  // Access as kubectl has it; empty = the service account of the pod this runs in.
  std::string kubeconfig;
  // One of its contexts; empty = its current one.
  std::string context;
  // Of claims, pools and pods; empty = that of the context or of the service account.
  std::string space;
  // Where the agent listens in every pod, TCP.
  uint32_t agent_port = 7444;
  // Secret that holds the keys of handles and links; made if it is not there.
  std::string key_secret = "sandbroker-keys";
  // Longest time one request to the API server may take.
  Duration request_bound = std::chrono::seconds(10);
  // From a pod that is ready to its agent's first answer.
  Duration dial_bound = std::chrono::seconds(10);
  // For how long a lost link is dialled again before the sandbox counts as unreachable for good.
  Duration relink_bound = std::chrono::seconds(30);
};

// Of local pools only.
struct TemplateConfig {
  // Folder that becomes the read-only root; empty = the host's /usr and a minimal /etc.
  std::string rootfs;
  // Sizes of the memory-backed /workspace, and of /tmp and /dev/shm.
  ByteSize workspace{256ull << 20};
  ByteSize tmp{64ull << 20};
  // Memory, and processes with threads, of all programs of a sandbox together. 0 = no limit of
  // memory; 4096 processes.
  ByteSize memory{0};
  uint32_t pids = 0;
  // "enforced": a limit above that this host can't enforce keeps the server from starting;
  // "advisory": it is warned of.
  std::string limits = "enforced";
  // Most open descriptors of one program.
  uint32_t open_files = 65536;
  // Environment of every execution. Not for secrets: --print-config shows it.
  std::map<std::string, std::string> env;
};

struct PoolConfig {
  bool enabled = true;
  // Of a local pool.
  std::string template_name = "default";
  // On Kubernetes: its SandboxWarmPool; empty = one of the pool's name.
  std::string warm_pool = {};
  // Started ahead and waiting. Of a local pool; on Kubernetes the SandboxWarmPool's replicas.
  uint32_t warm = 2;
  // Most sandboxes at once, whatever their state.
  uint32_t limit = 64;
  // Most callers queued in Acquire.
  uint32_t max_waiting = 1024;
  // Most sandboxes being started at once. Of a local pool.
  uint32_t max_starting = 4;
};

struct Config {
  ServerConfig server;
  LogConfig log;
  DrainConfig drain;
  LocalConfig local;
  KubernetesConfig kubernetes;
  // By name; "default" of both is always there, though a pool can be disabled.
  std::map<std::string, TemplateConfig> templates = {{"default", {}}};
  std::map<std::string, PoolConfig> pools = {{"default", {}}};
};

// The first thing that is wrong; the message begins with the knob: "server.listen: ...".
absl::Status Validate(const Config& config);

}  // namespace sandbroker::config

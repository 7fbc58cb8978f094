// What the agent is told at its start, by flags and by inherited descriptors, and its limits. Read
// once, before anything else opens a descriptor.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/base/signing.h"
#include "lib/guest/core/execution_table.h"

namespace sandbroker::guest {

struct TcpAddress {
  std::string host;  // numeric, without brackets; empty = none
  uint16_t port = 0;
};

struct AgentOptions {
  // One of the three: a bound unix socket that only wants listen(), a path to bind, or a TCP
  // address, which is served by TLS alone.
  int listen_fd = -1;
  std::string listen_unix;
  TcpAddress listen_tcp;
  // On a unix socket: the link's secret is read from one of these to its end.
  int secret_fd = -1;
  std::string secret_file;
  // On TCP: public keys of brokers, in a file, as they are, or both.
  std::string broker_key_file;
  std::string broker_key;
  // On TCP: gets "HOST:PORT" and a newline by rename once the agent listens.
  std::string port_file;
  // Default folder of executions.
  std::string workspace = "/workspace";
  // cgroup.procs that executions enter; -1 = they stay where the agent is.
  int cgroup_procs_fd = -1;
  // That cgroup's count of OOM kills (memory.events or memory.oom_control); -1 = not told.
  int oom_events_fd = -1;

  // Most processes and threads of all programs together (RLIMIT_NPROC); 0 = as inherited.
  uint64_t max_processes = 0;

  // Which sandbox this is: only to be seen in the command line, by a broker that looks for it.
  std::string sandbox;
  // Ends itself after this unless a broker has said otherwise by then; 0 = never.
  uint64_t backstop_ms = 0;

  uint64_t output_budget = 256 * 1024 * 1024;
  ExecutionTable::Limits executions;
  // Ended executions of which processes live on; further starts are refused with CAPACITY.
  size_t max_leftovers = 256;
  // A connection that has not proved itself by then is closed.
  Duration handshake_bound = std::chrono::seconds(5);
  size_t max_strangers = 16;  // connections within the handshake; on TCP kMaxTcpStrangers
  size_t max_links = 64;
  // Between TERM and KILL when the agent itself is told to end.
  Duration shutdown_grace = std::chrono::seconds(2);
};

inline constexpr size_t kMaxTcpStrangers = 64;

// How brokers prove themselves: one of the two, as AgentOptions say.
struct Credentials {
  std::string secret;  // wire::kSecretSize bytes
  std::vector<VerifyKey> broker_keys;
};

// With --listen-fd, descriptor 7 (the binary itself) is closed.
absl::StatusOr<AgentOptions> ParseAgentOptions(int argc, const char* const* argv);
std::string AgentUsage();

// From where the options say; closes the descriptor.
absl::StatusOr<Credentials> ReadCredentials(const AgentOptions& options);

}  // namespace sandbroker::guest

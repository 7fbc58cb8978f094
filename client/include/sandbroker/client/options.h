// What a caller can say about a connection, an acquire and a program. Plain values; unset fields
// leave the choice to the server (proto/sandbroker/v1 has defaults and limits).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sandbroker/v1/execution.pb.h"
#include "sandbroker/v1/sandbox.pb.h"

namespace sandbroker::client {

namespace v1 = ::sandbroker::v1;
using Duration = std::chrono::nanoseconds;

struct ConnectOptions {
  // How long Connect waits for a server to answer. A refused connection fails at once.
  Duration connect_timeout = std::chrono::seconds(5);
  // An idle connection with open calls is probed this often, and given up when the probe gets no
  // answer within keepalive_timeout. Zero = never.
  Duration keepalive_interval = std::chrono::seconds(60);
  Duration keepalive_timeout = std::chrono::seconds(20);
  // Put before the library's own name in the user agent.
  std::string user_agent = {};
};

// For one unary call. Nothing here is set behind the caller's back: a call without a deadline waits
// as long as the server does.
struct CallOptions {
  std::optional<Duration> deadline = {};
  // Cancels the call.
  std::stop_token stop = {};
};

struct AcquireOptions {
  // Empty = "default".
  std::string pool = {};
  std::map<std::string, std::string> labels = {};
  // For every program in the sandbox.
  std::map<std::string, std::string> env = {};
  std::optional<Duration> ttl = {};
  std::optional<Duration> max_lifetime = {};
  std::optional<bool> keep_while_running = {};
  std::optional<Duration> min_remaining = {};
  v1::Fallback fallback = v1::FALLBACK_UNSPECIFIED;
  std::optional<Duration> wait_bound = {};
  // Makes a repeated Acquire meet its first result.
  std::string request_id = {};
  // How long the destructor of the lease tries to give the sandbox back.
  Duration release_timeout = std::chrono::seconds(10);
};

struct ReleaseTaskOptions {
  // Required: "team=a,run in (1,2)".
  std::string label_selector = {};
  std::optional<std::chrono::system_clock::time_point> acquired_before = {};
  bool dry_run = false;
};

// A program to run. Strings are bytes: nothing is decoded or quoted, and no shell is involved.
struct Program {
  std::vector<std::string> argv = {};
  // Empty = the sandbox's workspace.
  std::string cwd = {};
  std::map<std::string, std::string> env = {};
  // Ends the program, unlike a deadline of the call, which only leaves it.
  std::optional<Duration> timeout = {};
  // From TERM to KILL, for timeout and cancel.
  std::optional<Duration> kill_grace = {};
  v1::ChildPolicy child_policy = v1::CHILD_POLICY_UNSPECIFIED;
  std::optional<Duration> child_bound = {};
  // 0 = the server's default.
  uint64_t log_bytes = 0;
};

struct RunOptions {
  // The whole input.
  std::string input = {};
  // Most bytes returned of each output.
  std::optional<uint32_t> output_cap = {};
  // Empty = a fresh one.
  std::string execution_id = {};
};

enum class Stdin { kNull, kPipe };

struct ExecOptions {
  Stdin input = Stdin::kNull;
  // Empty = a fresh one. The same id with the same program never starts it twice.
  std::string execution_id = {};
  // Grows with each try at the same execution_id. Unset = the time in microseconds.
  std::optional<uint64_t> attempt = {};
  // Leaves the program when over; it goes on.
  std::optional<Duration> deadline = {};
};

// One event of a program: ready first, ended last.
using Event = v1::ExecResponse;

// Called on threads of the library, one call at a time; the next event is not read before
// `on_event` has returned.
struct ExecCallbacks {
  std::function<void(const Event&)> on_event = {};
  // Exactly once, after the last event: how the program ended, or why that is not known.
  std::function<void(absl::StatusOr<v1::ExecEnded>)> on_done = {};
};

}  // namespace sandbroker::client

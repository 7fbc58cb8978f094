#include "client/convert.h"

#include <chrono>

#include "lib/base/ids.h"

namespace sandbroker::client {
namespace {

template <typename Repeated>
void AddEnv(const std::map<std::string, std::string>& env, Repeated* out) {
  for (const auto& [name, value] : env) {
    v1::EnvironmentVariable* variable = out->Add();
    variable->set_name(name);
    variable->set_value(value);
  }
}

std::string GivenOrNew(const std::string& id) { return id.empty() ? NewId() : id; }

}  // namespace

google::protobuf::Duration ToProto(Duration duration) {
  // Both parts truncate towards zero, so their signs agree, as the message demands.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  google::protobuf::Duration result;
  result.set_seconds(seconds.count());
  result.set_nanos(static_cast<int32_t>((duration - seconds).count()));
  return result;
}

v1::AcquireRequest ToProto(const AcquireOptions& options) {
  v1::AcquireRequest request;
  request.mutable_task()->set_pool(options.pool);
  for (const auto& [key, value] : options.labels) (*request.mutable_labels())[key] = value;
  AddEnv(options.env, request.mutable_env());
  if (options.ttl) *request.mutable_lease()->mutable_ttl() = ToProto(*options.ttl);
  if (options.max_lifetime) {
    *request.mutable_lease()->mutable_max_lifetime() = ToProto(*options.max_lifetime);
  }
  if (options.keep_while_running) {
    request.mutable_lease()->set_keep_while_running(*options.keep_while_running);
  }
  if (options.min_remaining) *request.mutable_min_remaining() = ToProto(*options.min_remaining);
  request.set_fallback(options.fallback);
  if (options.wait_bound) *request.mutable_wait_bound() = ToProto(*options.wait_bound);
  request.set_request_id(options.request_id);
  return request;
}

v1::ExecutionSpec ToProto(const Program& program) {
  v1::ExecutionSpec spec;
  for (const std::string& argument : program.argv) spec.add_argv(argument);
  spec.set_cwd(program.cwd);
  AddEnv(program.env, spec.mutable_env());
  if (program.timeout) *spec.mutable_timeout() = ToProto(*program.timeout);
  if (program.kill_grace) *spec.mutable_kill_grace() = ToProto(*program.kill_grace);
  spec.set_child_policy(program.child_policy);
  if (program.child_bound) *spec.mutable_child_bound() = ToProto(*program.child_bound);
  spec.set_log_bytes(program.log_bytes);
  return spec;
}

v1::ReleaseTaskSandboxesRequest ToProto(const ReleaseTaskOptions& options) {
  v1::ReleaseTaskSandboxesRequest request;
  request.set_label_selector(options.label_selector);
  request.set_dry_run(options.dry_run);
  if (options.acquired_before) {
    const google::protobuf::Duration since_epoch =
        ToProto(std::chrono::duration_cast<Duration>(options.acquired_before->time_since_epoch()));
    request.mutable_acquired_before()->set_seconds(since_epoch.seconds());
    request.mutable_acquired_before()->set_nanos(since_epoch.nanos());
  }
  return request;
}

v1::RunRequest ToRunRequest(const std::string& sandbox_id, const Program& program,
                            const RunOptions& options) {
  v1::RunRequest request;
  request.set_sandbox_id(sandbox_id);
  request.set_execution_id(GivenOrNew(options.execution_id));
  *request.mutable_spec() = ToProto(program);
  request.set_stdin(options.input);
  if (options.output_cap) request.set_output_cap(*options.output_cap);
  return request;
}

v1::ExecRequest ToExecRequest(const std::string& sandbox_id, const Program& program,
                              const ExecOptions& options) {
  v1::ExecRequest request;
  v1::ExecStart* start = request.mutable_start();
  start->set_sandbox_id(sandbox_id);
  start->set_execution_id(GivenOrNew(options.execution_id));
  *start->mutable_spec() = ToProto(program);
  start->set_stdin(options.input == Stdin::kPipe);
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  start->set_attempt(options.attempt.value_or(static_cast<uint64_t>(now.count())));
  return request;
}

}  // namespace sandbroker::client

#include "server/services/execution_fields.h"

#include <limits>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "server/services/fields.h"
#include "server/services/limits.h"

namespace sandbroker::services {
namespace {

namespace agent = ::sandbroker::agent::v1;

absl::Status ReadArgv(const v1::ExecutionSpec& spec, const std::string& path, agent::Start* to) {
  const std::string field = StrCat(path, ".argv");
  if (spec.argv().empty()) return InvalidField(field, "needs at least the program");
  if (spec.argv(0).empty()) return InvalidField(StrCat(field, "[0]"), "is empty");
  size_t bytes = 0;
  for (int i = 0; i < spec.argv_size(); ++i) {
    if (spec.argv(i).find('\0') != std::string::npos) {
      return InvalidField(StrCat(field, "[", i, "]"), "holds NUL");
    }
    bytes += spec.argv(i).size() + 1;
  }
  if (bytes > kMaxArgvBytes) {
    return InvalidField(field, StrCat(bytes, " bytes; limit ", kMaxArgvBytes));
  }
  *to->mutable_argv() = spec.argv();
  return absl::OkStatus();
}

absl::Status ReadPlace(const v1::ExecutionSpec& spec, const std::string& path, agent::Start* to) {
  const std::string& cwd = spec.cwd();
  const std::string field = StrCat(path, ".cwd");
  if (!cwd.empty() && cwd[0] != '/') return InvalidField(field, "must be empty or absolute");
  if (cwd.find('\0') != std::string::npos) return InvalidField(field, "holds NUL");
  if (cwd.size() >= kMaxCwdBytes) {
    return InvalidField(field, StrCat(cwd.size(), " bytes; limit ", kMaxCwdBytes - 1));
  }
  to->set_cwd(cwd);
  const auto env = ReadEnvironment(spec.env(), StrCat(path, ".env"));
  if (!env.ok()) return env.status();
  for (const broker::EnvVar& variable : *env) {
    agent::EnvVar* added = to->add_env();
    added->set_name(variable.name);
    added->set_value(variable.value);
  }
  return absl::OkStatus();
}

absl::Status ReadTimes(const v1::ExecutionSpec& spec, const std::string& path, agent::Start* to) {
  if (spec.has_timeout()) {
    const auto timeout =
        ReadDuration(spec.timeout(), StrCat(path, ".timeout"), {Duration(1), Duration::max()});
    if (!timeout.ok()) return timeout.status();
    to->set_timeout_ns(std::min(*timeout, kLongestTimeout).count());
  }
  to->set_kill_grace_ns(kDefaultKillGrace.count());
  if (spec.has_kill_grace()) {
    const auto grace =
        ReadDuration(spec.kill_grace(), StrCat(path, ".kill_grace"), {Duration(0), kMaxKillGrace});
    if (!grace.ok()) return grace.status();
    to->set_kill_grace_ns(grace->count());
  }
  if (spec.has_child_bound()) {
    const auto bound = ReadDuration(spec.child_bound(), StrCat(path, ".child_bound"),
                                    {Duration(0), kMaxChildBound});
    if (!bound.ok()) return bound.status();
    // To the agent 0 means its default: the shortest bound it knows is a nanosecond.
    to->set_children_bound_ns(std::max<int64_t>(bound->count(), 1));
  }
  return absl::OkStatus();
}

absl::Status ReadPolicy(const v1::ExecutionSpec& spec, const std::string& path,
                        uint64_t max_log_bytes, agent::Start* to) {
  switch (spec.child_policy()) {
    case v1::CHILD_POLICY_UNSPECIFIED:
    case v1::CHILD_POLICY_BOUNDED:
      to->set_children(agent::CHILDREN_BOUNDED);
      break;
    case v1::CHILD_POLICY_WAIT:
      to->set_children(agent::CHILDREN_WAIT);
      break;
    case v1::CHILD_POLICY_DETACH:
      to->set_children(agent::CHILDREN_DETACH);
      break;
    default:
      return InvalidField(StrCat(path, ".child_policy"), "not a value this server knows");
  }
  const uint64_t log = spec.log_bytes();
  if (log != 0 && (log < kMinLogBytes || log > max_log_bytes)) {
    return InvalidField(StrCat(path, ".log_bytes"),
                        StrCat(log, " is outside ", kMinLogBytes, " to ", max_log_bytes));
  }
  to->set_log_bytes(log);
  return absl::OkStatus();
}

absl::Status ReadSpec(const v1::ExecutionSpec& spec, const std::string& path,
                      uint64_t max_log_bytes, agent::Start* to) {
  SANDBROKER_RETURN_IF_ERROR(ReadArgv(spec, path, to));
  SANDBROKER_RETURN_IF_ERROR(ReadPlace(spec, path, to));
  SANDBROKER_RETURN_IF_ERROR(ReadTimes(spec, path, to));
  return ReadPolicy(spec, path, max_log_bytes, to);
}

}  // namespace

absl::StatusOr<broker::StartSpec> ReadStart(const v1::ExecStart& start, uint64_t max_log_bytes) {
  SANDBROKER_RETURN_IF_ERROR(CheckHandle(start.sandbox_id(), "start.sandbox_id"));
  SANDBROKER_RETURN_IF_ERROR(CheckId(start.execution_id(), "start.execution_id"));
  broker::StartSpec out;
  SANDBROKER_RETURN_IF_ERROR(ReadSpec(start.spec(), "start.spec", max_log_bytes, &out.start));
  out.handle = start.sandbox_id();
  out.start.set_execution_id(start.execution_id());
  out.start.set_stdin(start.stdin());
  if (start.attempt() > broker::kMaxAttempt) {
    return InvalidField("start.attempt",
                        StrCat(start.attempt(), " is above the limit, ", broker::kMaxAttempt));
  }
  out.attempt = start.attempt();
  if (start.output_offset() != 0 && start.execution_id().empty()) {
    return InvalidField("start.output_offset", "needs the execution_id of the earlier start");
  }
  out.start.mutable_reader()->set_offset(start.output_offset());
  return out;
}

absl::StatusOr<RunSpec> ReadRun(const v1::RunRequest& request, uint64_t max_log_bytes) {
  SANDBROKER_RETURN_IF_ERROR(CheckHandle(request.sandbox_id(), "sandbox_id"));
  SANDBROKER_RETURN_IF_ERROR(CheckId(request.execution_id(), "execution_id"));
  if (request.stdin().size() > kMaxStdinBytes) {
    return InvalidField("stdin", StrCat(request.stdin().size(), " bytes; limit ", kMaxStdinBytes,
                                        "; Exec takes more"));
  }
  RunSpec out;
  out.output_cap = request.has_output_cap() ? request.output_cap() : kMaxRunOutputBytes;
  if (out.output_cap > kMaxRunOutputBytes) {
    return InvalidField("output_cap", StrCat(out.output_cap, "; limit ", kMaxRunOutputBytes));
  }
  SANDBROKER_RETURN_IF_ERROR(ReadSpec(request.spec(), "spec", max_log_bytes, &out.start.start));
  out.start.handle = request.sandbox_id();
  out.start.start.set_execution_id(request.execution_id());
  out.start.start.set_stdin(!request.stdin().empty());
  return out;
}

absl::StatusOr<uint64_t> ReadStdinOffset(const v1::ExecStdin& input, uint64_t next) {
  if (input.data().size() > kMaxStdinBytes) {
    return InvalidField("stdin.data",
                        StrCat(input.data().size(), " bytes; limit ", kMaxStdinBytes));
  }
  const uint64_t offset = input.has_offset() ? input.offset() : next;
  if (offset > std::numeric_limits<uint64_t>::max() / 2) {
    return InvalidField("stdin.offset", "is beyond any input");
  }
  return offset;
}

absl::Status CheckSignal(const v1::ExecSignal& signal) {
  if (signal.number() >= 1 && signal.number() <= 64) return absl::OkStatus();
  return InvalidField("signal.number", StrCat(signal.number(), " is outside 1 to 64"));
}

absl::StatusOr<Duration> ReadCancelGrace(const v1::ExecCancel& cancel, Duration otherwise) {
  if (!cancel.has_kill_grace()) return otherwise;
  return ReadDuration(cancel.kill_grace(), "cancel.kill_grace", {Duration(0), kMaxKillGrace});
}

}  // namespace sandbroker::services

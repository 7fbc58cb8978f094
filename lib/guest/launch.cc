#include "lib/guest/launch.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/guest/core/output_log.h"

namespace sandbroker::guest {
namespace {

bool HasNul(const std::string& text) { return text.find('\0') != std::string::npos; }

LaunchFailure Failure(int error_number, const std::string& step, const std::string& about) {
  return {error_number, step, StrCat(step, " ", about, ": ", std::strerror(error_number))};
}

// 0 when a program can start there.
int CheckFolder(const std::string& cwd) {
  struct stat info;
  if (::stat(cwd.c_str(), &info) != 0) return errno;
  if (!S_ISDIR(info.st_mode)) return ENOTDIR;
  return ::access(cwd.c_str(), X_OK) == 0 ? 0 : errno;
}

// Both ends close on exec; ours does not block.
bool MakePipe(int our_end, UniqueFd* ours, UniqueFd* theirs) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return false;
  ours->Reset(fds[our_end]);
  theirs->Reset(fds[1 - our_end]);
  return ::fcntl(ours->get(), F_SETFL, O_NONBLOCK) == 0;
}

struct ChildEnds {
  UniqueFd input, output, error;
};

bool MakeStreams(bool with_input, Launched* launched, ChildEnds* child) {
  if (!MakePipe(0, &launched->output, &child->output)) return false;
  if (!MakePipe(0, &launched->error, &child->error)) return false;
  if (with_input) return MakePipe(1, &launched->input, &child->input);
  child->input.Reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return child->input.valid();
}

absl::Status ValidateNumbers(const agent::v1::Start& start) {
  if (start.timeout_ns() < 0) return InvalidField("timeout", "must not be negative");
  if (start.kill_grace_ns() < 0) return InvalidField("kill_grace", "must not be negative");
  if (start.reattach_window_ns() < 0) return InvalidField("reattach_window", "is negative");
  if (start.children_bound_ns() < 0) return InvalidField("children_bound", "is negative");
  if (start.window_bytes() > OutputLog::kMaxWindow) {
    return InvalidField("window_bytes", StrCat("is above ", OutputLog::kMaxWindow));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateStart(const agent::v1::Start& start) {
  if (!IsValidId(start.execution_id())) {
    return InvalidField("execution_id", "must match [A-Za-z0-9._-]{1,64}");
  }
  if (start.argv().empty()) return InvalidField("argv", "is empty");
  for (const std::string& argument : start.argv()) {
    if (HasNul(argument)) return InvalidField("argv", "holds a NUL byte");
  }
  if (HasNul(start.cwd())) return InvalidField("cwd", "holds a NUL byte");
  SANDBROKER_RETURN_IF_ERROR(ValidateNumbers(start));
  return ValidateEnv(start.env(), "env");
}

std::vector<ResourceLimit> TakeProgramLimits(uint64_t max_processes) {
  struct rlimit files = {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  std::vector<ResourceLimit> limits = {{RLIMIT_NOFILE, files.rlim_cur, files.rlim_max}};
  if (max_processes != 0) limits.push_back({RLIMIT_NPROC, max_processes, max_processes});
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  return limits;
}

std::optional<LaunchFailure> Launch(const agent::v1::Start& start, const Environment& environment,
                                    LaunchSettings* settings, Launched* launched) {
  SpawnSpec spec;
  Environment::Composed composed = environment.Compose(start.env());
  spec.argv.assign(start.argv().begin(), start.argv().end());
  spec.env = std::move(composed.entries);
  spec.cwd = start.cwd().empty() ? settings->workspace : start.cwd();
  if (const int error = ResolveProgram(spec.argv[0], composed.path, spec.cwd, &spec.path)) {
    if (const int folder = CheckFolder(spec.cwd)) return Failure(folder, "cwd", spec.cwd);
    return Failure(error, "exec", spec.argv[0]);
  }
  ChildEnds child;
  if (!MakeStreams(start.stdin(), launched, &child)) return Failure(errno, "pipe", "");
  spec.fds = {{child.input.get(), 0}, {child.output.get(), 1}, {child.error.get(), 2}};
  spec.cgroup_procs_fd = settings->cgroup_procs_fd;
  spec.rlimits = settings->rlimits;
  if (const auto error = Supervise(spec, &settings->supervisors, &launched->tree)) {
    const bool about_folder = std::strcmp(error->step, "cwd") == 0;
    return Failure(error->error_number, error->step, about_folder ? spec.cwd : spec.path);
  }
  return std::nullopt;
}

}  // namespace sandbroker::guest

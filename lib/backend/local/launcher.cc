#include "lib/backend/local/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "lib/backend/local/cgroups.h"
#include "lib/backend/local/host_facts.h"
#include "lib/backend/local/isolation.h"
#include "lib/backend/local/processes.h"
#include "lib/backend/local/record_files.h"
#include "lib/backend/local/syscall_filter.h"
#include "lib/base/fail_point.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/process/spawn.h"

namespace sandbroker::local {
namespace {

// On top of start_bound, for an agent that its broker never gets to speak to.
constexpr Duration kAgentPatience = std::chrono::seconds(5);

absl::Status SystemError(std::string_view what, int error_number) {
  return MakeError(Reason::kNotReady, StrCat(what, ": ", std::strerror(error_number)));
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return SystemError("pipe", errno);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Bound and not yet listening: the agent listens, so the peer's credentials are its own.
absl::StatusOr<UniqueFd> BindSocket(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return SystemError("socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return SystemError("socket path", ENAMETOOLONG);
  std::memcpy(address.sun_path, path.data(), path.size());
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(StrCat("bind ", path), errno);
  }
  return socket;
}

absl::StatusOr<UniqueFd> MemoryFile(const char* name, const std::string& content) {
  UniqueFd file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) return SystemError("memfd_create", errno);
  if (write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()) ||
      lseek(file.get(), 0, SEEK_SET) != 0) {
    return SystemError("memfd write", errno);
  }
  return file;
}

// What bubblewrap is started with besides its argv; the fds live until it has them.
struct Inherited {
  std::vector<UniqueFd> owned;
  std::vector<std::pair<int, int>> map;

  void Give(UniqueFd fd, int number) {
    map.emplace_back(fd.get(), number);
    owned.push_back(std::move(fd));
  }
};

// The same for all sandboxes, so made once.
absl::Status GiveSyscallFilter(Inherited* inherited) {
  static const absl::StatusOr<std::string> program = CompileSyscallFilter();
  if (!program.ok()) return MakeError(Reason::kIsolationUnavailable, MessageOf(program.status()));
  absl::StatusOr<UniqueFd> file = MemoryFile("seccomp", *program);
  if (!file.ok()) return file.status();
  inherited->Give(*std::move(file), kSeccompFd);
  return absl::OkStatus();
}

absl::Status GiveCommon(const LocalSettings& settings, const TemplateSettings& tmpl,
                        Inherited* inherited) {
  SANDBROKER_RETURN_IF_ERROR(GiveSyscallFilter(inherited));
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return SystemError("/dev/null", errno);
  inherited->map.emplace_back(null.get(), 0);
  inherited->Give(std::move(null), 1);
  UniqueFd agent(open(settings.agent_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!agent.valid()) return SystemError(StrCat("agent ", settings.agent_path), errno);
  inherited->Give(std::move(agent), kAgentFd);
  if (!tmpl.rootfs.empty()) return absl::OkStatus();  // it has an /etc of its own
  int number = kFirstEtcFd;
  for (const EtcFile& file : MinimalEtc()) {
    absl::StatusOr<UniqueFd> memory = MemoryFile("etc", file.content);
    if (!memory.ok()) return memory.status();
    inherited->Give(*std::move(memory), number++);
  }
  return absl::OkStatus();
}

std::string FindBwrap(const LocalSettings& settings) {
  const char* path = std::getenv("PATH");
  std::string resolved;
  const int error =
      ResolveProgram(settings.bwrap_path, path ? path : "/usr/bin:/bin", "", &resolved);
  return error == 0 && access(resolved.c_str(), X_OK) == 0 ? resolved : "";
}

// A core of one byte is no core at all, not even for a handler on the host that core_pattern pipes
// them to: for that one, 0 would mean no limit.
std::vector<ResourceLimit> Limits(const TemplateSettings& tmpl) {
  struct rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t hard = std::min<rlim_t>(files.rlim_max, tmpl.open_files);
  return {{RLIMIT_NOFILE, std::min(files.rlim_cur, hard), hard}, {RLIMIT_CORE, 1, 1}};
}

absl::Status SpawnBwrap(const LocalSettings& settings, const TemplateSettings& tmpl,
                        const std::vector<std::string>& agent_args, uid_t host_uid,
                        const Inherited& inherited, Spawned* spawned) {
  SpawnSpec spec;
  spec.path = FindBwrap(settings);
  if (spec.path.empty()) {
    return MakeError(Reason::kIsolationUnavailable,
                     StrCat("'", settings.bwrap_path, "' was not found; install bubblewrap"));
  }
  std::vector<std::string> command = {StrCat("/proc/self/fd/", kAgentFd)};
  command.insert(command.end(), agent_args.begin(), agent_args.end());
  static const std::vector<HiddenPath> hidden = ExistingHiddenPaths();
  spec.argv = BubblewrapArgv(settings.bwrap_path, tmpl, hidden, command);
  spec.cwd = "/";
  spec.fds = inherited.map;
  spec.rlimits = Limits(tmpl);
  if (host_uid != 0) spec.user = {host_uid, static_cast<gid_t>(host_uid)};
  if (const auto error = Spawn(spec, spawned)) {
    if (std::string_view(error->step) == "exec") {
      return MakeError(
          Reason::kIsolationUnavailable,
          StrCat("'", spec.path, "' can't be executed by uid ", host_uid, " (errno ",
                 error->error_number, "); install bubblewrap, or name it with --bwrap"));
    }
    return SystemError(StrCat("starting bubblewrap (", error->step, ")"), error->error_number);
  }
  return absl::OkStatus();
}

std::string ReadAll(int fd) {
  std::string text;
  char part[4096];
  ssize_t got;
  while (text.size() < 64 * 1024 && (got = read(fd, part, sizeof(part))) > 0) {
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

absl::StatusOr<UniqueFd> SecretPipe(const std::string& secret) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  if (!pipe.ok()) return pipe.status();
  if (write(pipe->write.get(), secret.data(), secret.size()) !=
      static_cast<ssize_t>(secret.size())) {
    return SystemError("secret pipe", errno);
  }
  return std::move(pipe->read);
}

std::vector<std::string> AgentArguments(const TemplateSettings& tmpl) {
  return {"--workspace",     "/workspace",
          "--listen-fd",     std::to_string(kListenFd),
          "--secret-fd",     std::to_string(kSecretFd),
          "--max-processes", std::to_string(tmpl.pids != 0 ? tmpl.pids : kDefaultPids)};
}

// Where memory can't be limited although the template says so, the limit is advisory: the backend's
// probe has refused the others.
absl::Status GiveCgroup(const LocalSettings& settings, const TemplateSettings& tmpl,
                        const std::string& uid, Inherited* inherited,
                        std::vector<std::string>* agent_args) {
  if (tmpl.memory_bytes == 0 || !settings.cgroups.usable()) return absl::OkStatus();
  absl::StatusOr<SandboxCgroup> cgroup = MakeSandboxCgroup(settings.cgroups, uid, tmpl);
  if (!cgroup.ok()) return cgroup.status();
  inherited->Give(std::move(cgroup->procs), kCgroupProcsFd);
  inherited->Give(std::move(cgroup->oom_events), kOomEventsFd);
  agent_args->insert(agent_args->end(), {"--cgroup-procs-fd", std::to_string(kCgroupProcsFd),
                                         "--oom-events-fd", std::to_string(kOomEventsFd)});
  return absl::OkStatus();
}

}  // namespace

absl::Status Locate(const std::string& directory, Launched* launched) {
  launched->directory = UniqueFd(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!launched->directory.valid()) return SystemError(directory, errno);
  launched->socket_path = StrCat("/proc/self/fd/", launched->directory.get(), "/agent.sock");
  return absl::OkStatus();
}

absl::StatusOr<Launched> Launch(const LocalSettings& settings, const TemplateSettings& tmpl,
                                const LaunchOrder& order) {
  Launched launched;
  RecordFiles files(SandboxesIn(settings.state_dir));
  const std::string directory = files.FolderOf(order.uid);
  if (mkdir(directory.c_str(), 0700) != 0) return SystemError(StrCat("mkdir ", directory), errno);
  SANDBROKER_FAIL_POINT("launch.folder");
  SANDBROKER_RETURN_IF_ERROR(files.Write(order.uid, order.record));
  SANDBROKER_RETURN_IF_ERROR(Locate(directory, &launched));
  launched.secret = order.secret;

  Inherited inherited;
  SANDBROKER_RETURN_IF_ERROR(GiveCommon(settings, tmpl, &inherited));
  absl::StatusOr<UniqueFd> socket = BindSocket(launched.socket_path);
  if (!socket.ok()) return socket.status();
  inherited.Give(*std::move(socket), kListenFd);
  absl::StatusOr<UniqueFd> secret = SecretPipe(launched.secret);
  if (!secret.ok()) return secret.status();
  inherited.Give(*std::move(secret), kSecretFd);
  std::vector<std::string> agent_args = AgentArguments(tmpl);
  SANDBROKER_RETURN_IF_ERROR(GiveCgroup(settings, tmpl, order.uid, &inherited, &agent_args));
  absl::StatusOr<Pipe> info = MakePipe();
  absl::StatusOr<Pipe> errors = MakePipe();
  if (!info.ok()) return info.status();
  if (!errors.ok()) return errors.status();
  inherited.Give(std::move(info->write), kInfoFd);
  inherited.Give(std::move(errors->write), 2);
  launched.info = std::move(info->read);
  launched.stderr_ = std::move(errors->read);

  const auto patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(settings.start_bound + kAgentPatience);
  Spawned spawned;
  agent_args.insert(agent_args.end(),
                    {"--backstop-ms", std::to_string(patience.count()), kSandboxFlag, order.uid});
  SANDBROKER_FAIL_POINT("launch.recorded");
  SANDBROKER_RETURN_IF_ERROR(
      SpawnBwrap(settings, tmpl, agent_args, order.host_uid, inherited, &spawned));
  SANDBROKER_FAIL_POINT("launch.spawned");
  launched.monitor_pid = spawned.pid;
  launched.monitor_pidfd = std::move(spawned.pidfd);
  return launched;
}

pid_t ReadChildPid(int info_fd) {
  pollfd ready{info_fd, POLLIN, 0};
  if (poll(&ready, 1, 0) <= 0) return 0;
  char text[256] = {};
  const ssize_t got = read(info_fd, text, sizeof(text) - 1);
  if (got <= 0) return 0;
  const char* at = std::strstr(text, "\"child-pid\":");
  return at == nullptr ? 0 : std::atoi(at + std::strlen("\"child-pid\":"));
}

absl::Status ProbeIsolation(const LocalSettings& settings) {
  for (const auto& [name, tmpl] : settings.templates) {
    Inherited inherited;
    SANDBROKER_RETURN_IF_ERROR(GiveCommon(settings, tmpl, &inherited));
    absl::StatusOr<Pipe> info = MakePipe();
    absl::StatusOr<Pipe> errors = MakePipe();
    if (!info.ok()) return info.status();
    if (!errors.ok()) return errors.status();
    inherited.Give(std::move(info->write), kInfoFd);
    inherited.Give(std::move(errors->write), 2);
    Spawned spawned;
    const uid_t host_uid = geteuid() == 0 ? settings.uid_first : 0;
    SANDBROKER_RETURN_IF_ERROR(
        SpawnBwrap(settings, tmpl, {"--version"}, host_uid, inherited, &spawned));
    inherited.owned.clear();
    const std::string complaint = ReadAll(errors->read.get());
    int status = 0;
    while (waitpid(spawned.pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    return MakeError(Reason::kIsolationUnavailable,
                     StrCat("template '", name, "': ", ExplainFailure(complaint, ReadHostFacts()),
                            " [", StripWhitespace(complaint), "]"));
  }
  return absl::OkStatus();
}

}  // namespace sandbroker::local

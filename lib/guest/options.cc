#include "lib/guest/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>

#include "absl/strings/numbers.h"
#include "lib/base/fd.h"
#include "lib/base/strings.h"
#include "lib/wire/handshake.h"

namespace sandbroker::guest {
namespace {

constexpr int kBinaryFd = 7;

using Flags = std::map<std::string, std::string>;

absl::StatusOr<Flags> Split(int argc, const char* const* argv) {
  Flags flags;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name.substr(0, 2) != "--" || i + 1 >= argc) {
      return absl::InvalidArgumentError(StrCat("expected --flag VALUE at '", name, "'"));
    }
    flags.emplace(name.substr(2), argv[i + 1]);
  }
  return flags;
}

template <class Number>
absl::Status Take(Flags* flags, const char* name, Number* out) {
  const auto it = flags->find(name);
  if (it == flags->end()) return absl::OkStatus();
  uint64_t value = 0;
  if (!absl::SimpleAtoi(it->second, &value) || value > (uint64_t{1} << 40)) {
    return absl::InvalidArgumentError(StrCat("--", name, ": not a number in range"));
  }
  *out = static_cast<Number>(value);
  flags->erase(it);
  return absl::OkStatus();
}

void Take(Flags* flags, const char* name, std::string* out) {
  const auto it = flags->find(name);
  if (it == flags->end()) return;
  *out = it->second;
  flags->erase(it);
}

}  // namespace

std::string AgentUsage() {
  return "usage: sandbroker-agent (--listen-fd N | --listen-unix PATH)\n"
         "                        (--secret-fd N | --secret-file PATH)\n"
         "                        [--workspace DIR] [--output-budget BYTES]\n"
         "                        [--max-executions N] [--max-tombstones N]\n"
         "                        [--max-leftovers N] [--max-processes N]\n"
         "                        [--cgroup-procs-fd N] [--oom-events-fd N]\n"
         "                        [--backstop-ms N] [--sandbox NAME]\n";
}

absl::StatusOr<AgentOptions> ParseAgentOptions(int argc, const char* const* argv) {
  auto flags = Split(argc, argv);
  if (!flags.ok()) return flags.status();
  AgentOptions options;
  Take(&*flags, "listen-unix", &options.listen_unix);
  Take(&*flags, "secret-file", &options.secret_file);
  Take(&*flags, "workspace", &options.workspace);
  Take(&*flags, "sandbox", &options.sandbox);
  for (absl::Status status : {Take(&*flags, "listen-fd", &options.listen_fd),
                              Take(&*flags, "secret-fd", &options.secret_fd),
                              Take(&*flags, "output-budget", &options.output_budget),
                              Take(&*flags, "max-executions", &options.executions.max_executions),
                              Take(&*flags, "backstop-ms", &options.backstop_ms),
                              Take(&*flags, "max-leftovers", &options.max_leftovers),
                              Take(&*flags, "max-tombstones", &options.executions.max_tombstones),
                              Take(&*flags, "max-processes", &options.max_processes),
                              Take(&*flags, "cgroup-procs-fd", &options.cgroup_procs_fd),
                              Take(&*flags, "oom-events-fd", &options.oom_events_fd)}) {
    if (!status.ok()) return status;
  }
  if (!flags->empty()) {
    return absl::InvalidArgumentError(StrCat("unknown flag --", flags->begin()->first));
  }
  if (options.listen_fd < 0 && options.listen_unix.empty()) options.listen_fd = 3;
  if (options.listen_fd >= 0 && !options.listen_unix.empty()) {
    return absl::InvalidArgumentError("--listen-fd and --listen-unix exclude each other");
  }
  if (options.secret_fd < 0 && options.secret_file.empty()) options.secret_fd = 4;
  if (options.listen_fd >= 0) ::close(kBinaryFd);
  return options;
}

absl::StatusOr<std::string> ReadSecret(const AgentOptions& options) {
  UniqueFd fd(options.secret_file.empty()
                  ? options.secret_fd
                  : ::open(options.secret_file.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[wire::kSecretSize + 1];
  size_t have = 0;
  while (have < sizeof(buffer)) {
    const ssize_t n = ::read(fd.get(), buffer + have, sizeof(buffer) - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::InternalError(StrCat("secret: ", std::strerror(errno)));
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  std::string secret(buffer, have);
  ::explicit_bzero(buffer, sizeof(buffer));
  if (have != wire::kSecretSize) {
    return absl::InvalidArgumentError(StrCat("secret is not ", wire::kSecretSize, " bytes"));
  }
  return secret;
}

}  // namespace sandbroker::guest

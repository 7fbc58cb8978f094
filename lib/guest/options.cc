#include "lib/guest/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "lib/base/fd.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/wire/handshake.h"

namespace sandbroker::guest {
namespace {

constexpr int kBinaryFd = 7;
constexpr size_t kMaxKeyFile = 64 * 1024;

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

// HOST:PORT, an IPv6 host in brackets.
absl::Status Take(Flags* flags, const char* name, TcpAddress* out) {
  const auto it = flags->find(name);
  if (it == flags->end()) return absl::OkStatus();
  const std::string& text = it->second;
  const size_t colon = text.rfind(':');
  std::string_view host = std::string_view(text).substr(0, std::min(colon, text.size()));
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  uint32_t port = 0;
  if (colon == std::string::npos || host.empty() ||
      bracketed != (host.find(':') != std::string_view::npos) ||
      !absl::SimpleAtoi(text.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(StrCat("--", name, ": expected IP:PORT or [IPv6]:PORT"));
  }
  *out = {std::string(host), static_cast<uint16_t>(port)};
  flags->erase(it);
  return absl::OkStatus();
}

void Take(Flags* flags, const char* name, std::string* out) {
  const auto it = flags->find(name);
  if (it == flags->end()) return;
  *out = it->second;
  flags->erase(it);
}

// A socket and its way of proof go together.
absl::Status SettleLink(AgentOptions* options) {
  const bool tcp = !options->listen_tcp.host.empty();
  const bool keys = !options->broker_key_file.empty() || !options->broker_key.empty();
  const bool secret = options->secret_fd >= 0 || !options->secret_file.empty();
  const int sockets = tcp + (options->listen_fd >= 0) + !options->listen_unix.empty();
  if (sockets > 1) {
    return absl::InvalidArgumentError(
        "--listen-fd, --listen-unix and --listen-tcp exclude each other");
  }
  if (tcp && (!keys || secret)) {
    return absl::InvalidArgumentError(
        "--listen-tcp needs --broker-key-file or --broker-key, and no secret");
  }
  if (!tcp && (keys || !options->port_file.empty())) {
    return absl::InvalidArgumentError(
        "--broker-key-file, --broker-key and --port-file need --listen-tcp");
  }
  if (tcp) {
    options->max_strangers = kMaxTcpStrangers;
    return absl::OkStatus();
  }
  if (sockets == 0) options->listen_fd = 3;
  if (!secret) options->secret_fd = 4;
  return absl::OkStatus();
}

// All of a small file or pipe.
absl::StatusOr<std::string> ReadAll(UniqueFd fd, size_t limit, std::string_view what) {
  std::string text(limit + 1, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::InternalError(StrCat(what, ": ", std::strerror(errno)));
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  if (have > limit) return absl::InvalidArgumentError(StrCat(what, " is above ", limit, " bytes"));
  std::string whole = text.substr(0, have);
  ::explicit_bzero(text.data(), text.size());
  return whole;
}

absl::StatusOr<std::string> ReadSecret(const AgentOptions& options) {
  UniqueFd fd(options.secret_file.empty()
                  ? options.secret_fd
                  : ::open(options.secret_file.c_str(), O_RDONLY | O_CLOEXEC));
  auto secret = ReadAll(std::move(fd), wire::kSecretSize, "secret");
  if (secret.ok() && secret->size() != wire::kSecretSize) {
    return absl::InvalidArgumentError(StrCat("secret is not ", wire::kSecretSize, " bytes"));
  }
  return secret;
}

absl::StatusOr<std::vector<VerifyKey>> ReadKeys(const AgentOptions& options) {
  std::string text = options.broker_key;
  if (!options.broker_key_file.empty()) {
    UniqueFd fd(::open(options.broker_key_file.c_str(), O_RDONLY | O_CLOEXEC));
    auto file = ReadAll(std::move(fd), kMaxKeyFile, options.broker_key_file);
    if (!file.ok()) return file.status();
    StrAppend(&text, "\n", *file);
  }
  return VerifyKey::ParseList(text);
}

}  // namespace

std::string AgentUsage() {
  return "usage: sandbroker-agent (--listen-fd N | --listen-unix PATH)\n"
         "                        (--secret-fd N | --secret-file PATH)\n"
         "                        [OPTION...]\n"
         "       sandbroker-agent --listen-tcp IP:PORT [--port-file PATH]\n"
         "                        (--broker-key-file PATH | --broker-key BASE64[,BASE64...])\n"
         "                        [OPTION...]\n"
         "       sandbroker-agent --print-status | --version\n"
         "options:\n"
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
  Take(&*flags, "broker-key-file", &options.broker_key_file);
  Take(&*flags, "broker-key", &options.broker_key);
  Take(&*flags, "port-file", &options.port_file);
  Take(&*flags, "workspace", &options.workspace);
  Take(&*flags, "sandbox", &options.sandbox);
  for (absl::Status status : {Take(&*flags, "listen-tcp", &options.listen_tcp),
                              Take(&*flags, "listen-fd", &options.listen_fd),
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
  SANDBROKER_RETURN_IF_ERROR(SettleLink(&options));
  if (options.listen_fd >= 0) ::close(kBinaryFd);
  return options;
}

absl::StatusOr<Credentials> ReadCredentials(const AgentOptions& options) {
  Credentials credentials;
  if (options.listen_tcp.host.empty()) {
    auto secret = ReadSecret(options);
    if (!secret.ok()) return secret.status();
    credentials.secret = *std::move(secret);
  } else {
    auto keys = ReadKeys(options);
    if (!keys.ok()) return keys.status();
    credentials.broker_keys = *std::move(keys);
  }
  return credentials;
}

}  // namespace sandbroker::guest

#include "lib/kube/access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "lib/base/fd.h"
#include "lib/base/strings.h"

namespace sandbroker::kube {
namespace {

constexpr size_t kMaxFile = 1024 * 1024;

absl::Status Bad(std::string_view what) { return absl::InvalidArgumentError(ToAbsl(what)); }

bool ParsePort(std::string_view text, uint16_t* port) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > 65535) {
    return false;
  }
  *port = static_cast<uint16_t>(value);
  return true;
}

// What may stand in a Host header and be looked up: nothing that ends a header or a URL's part.
bool IsHost(std::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  for (const char c : host) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '.' || c == '_' || c == ':' || c == '%';
    if (!fine) return false;
  }
  return true;
}

bool IsBasePath(std::string_view path) {
  for (const char c : path) {
    if (c <= ' ' || c >= 0x7f || c == '?' || c == '#') return false;
  }
  return true;
}

// "[::1]:443", "host:443", "host", and "::1" bare, as the environment of a pod has it.
absl::Status ParseHostPort(std::string_view text, Access* access) {
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return Bad(StrCat("'", CEscape(text), "': no ']'"));
    host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!port.empty() && !ConsumePrefix(&port, ":")) {
      return Bad(StrCat("'", CEscape(text), "': text after ']'"));
    }
    if (!port.empty() || text.ends_with(':')) {
      if (!ParsePort(port, &access->port)) return Bad(StrCat("'", CEscape(text), "': bad port"));
    }
  } else if (const size_t colon = text.find(':');
             colon != std::string_view::npos &&
             text.find(':', colon + 1) == std::string_view::npos) {
    host = text.substr(0, colon);
    if (!ParsePort(text.substr(colon + 1), &access->port)) {
      return Bad(StrCat("'", CEscape(text), "': bad port"));
    }
  }
  if (!IsHost(host)) return Bad(StrCat("'", CEscape(text), "': no host"));
  access->host = host;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (!file.valid() || fstat(file.get(), &facts) != 0) {
    return absl::NotFoundError(StrCat(path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(facts.st_mode)) return Bad(StrCat(path, ": not a regular file"));
  std::string text;
  char piece[16 * 1024];
  for (;;) {
    const ssize_t got = ::read(file.get(), piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(StrCat(path, ": ", std::strerror(errno)));
    if (got == 0) return text;
    text.append(piece, static_cast<size_t>(got));
    if (text.size() > kMaxFile) return Bad(StrCat(path, ": larger than 1 MiB"));
  }
}

absl::Status ParseServerUrl(std::string_view url, Access* access) {
  std::string_view rest = url;
  if (ConsumePrefix(&rest, "https://")) {
    access->tls = true;
    access->port = 443;
  } else if (ConsumePrefix(&rest, "http://")) {
    access->tls = false;
    access->port = 80;
  } else {
    return Bad(StrCat("'", CEscape(url), "': neither https:// nor http://"));
  }
  const size_t slash = rest.find('/');
  std::string_view path = slash == std::string_view::npos ? "" : rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (!IsBasePath(path)) return Bad(StrCat("'", CEscape(url), "': bad path"));
  access->base_path = path;
  return ParseHostPort(rest.substr(0, slash), access);
}

std::string HostHeader(const Access& access) {
  const bool v6 = access.host.find(':') != std::string::npos;
  std::string text = v6 ? StrCat("[", access.host, "]") : access.host;
  if (access.port != (access.tls ? 443 : 80)) StrAppend(&text, ":", access.port);
  return text;
}

absl::StatusOr<std::string> CleanToken(std::string_view text) {
  const std::string_view token = StripWhitespace(text);
  if (token.empty()) return Bad("the token is empty");
  for (const char c : token) {
    if (c <= ' ' || c >= 0x7f) return Bad("the token holds a character that no header may have");
  }
  return std::string(token);
}

absl::StatusOr<Access> InClusterAccess(std::string_view host, std::string_view port,
                                       const std::string& folder, const FileReader& read) {
  if (host.empty() || port.empty()) {
    return Bad(
        "KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set: not in a pod; name a "
        "kubeconfig");
  }
  Access access;
  if (absl::Status status = ParseHostPort(host, &access); !status.ok()) {
    return Bad(StrCat("KUBERNETES_SERVICE_HOST: ", FromAbsl(status.message())));
  }
  if (!ParsePort(port, &access.port)) {
    return Bad(StrCat("KUBERNETES_SERVICE_PORT: '", CEscape(port), "': bad port"));
  }
  access.token_file = folder + "/token";
  access.ca_file = folder + "/ca.crt";
  const auto token = read(access.token_file);
  if (!token.ok()) return token.status();
  auto clean = CleanToken(*token);
  if (!clean.ok()) return Bad(StrCat(access.token_file, ": ", FromAbsl(clean.status().message())));
  access.token = *std::move(clean);
  auto ca = read(access.ca_file);
  if (!ca.ok()) return ca.status();
  access.ca = *std::move(ca);
  // Not every mount has it; the configuration may name one instead.
  if (const auto space = read(folder + "/namespace"); space.ok()) {
    access.space = StripWhitespace(*space);
  }
  return access;
}

absl::StatusOr<Access> FindAccess(const std::string& kubeconfig, const std::string& context) {
  if (!kubeconfig.empty()) return KubeconfigAccess(kubeconfig, context, ReadSmallFile);
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  return InClusterAccess(host != nullptr ? host : "", port != nullptr ? port : "",
                         std::string(kServiceAccountFolder), ReadSmallFile);
}

}  // namespace sandbroker::kube

// Where the API server is and as whom we speak to it: from the pod's service account or from a
// kubeconfig. Reads files, opens no connection. Every failure names the file and what to do.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sandbroker::kube {

struct Access {
  bool tls = true;
  std::string host;  // a name or an address; IPv6 without brackets
  uint16_t port = 443;
  std::string base_path;    // before /api and /apis; empty or "/something"
  std::string server_name;  // whom the certificate must name, if it is not `host`
  bool insecure = false;    // the server's certificate is not checked

  // PEM texts. A file beside a text is where it came from, and is read again when it changes.
  std::string ca;
  std::string ca_file;
  std::string client_certificate;
  std::string client_key;
  std::string token;
  std::string token_file;

  std::string space;  // the namespace named there; may be empty
};

// The text of a file, or why not.
using FileReader = std::function<absl::StatusOr<std::string>(const std::string& path)>;
// At most 1 MiB; regular files only.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

inline constexpr std::string_view kServiceAccountFolder =
    "/var/run/secrets/kubernetes.io/serviceaccount";

// `host` and `port` are the values of KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT; `folder`
// holds token, ca.crt and namespace.
absl::StatusOr<Access> InClusterAccess(std::string_view host, std::string_view port,
                                       const std::string& folder, const FileReader& read);

// `context`: empty = current-context. Relative files are relative to the folder of `file`.
absl::StatusOr<Access> KubeconfigAccess(const std::string& file, const std::string& context,
                                        const FileReader& read);

// `kubeconfig` if one is named, else the pod's own account.
absl::StatusOr<Access> FindAccess(const std::string& kubeconfig, const std::string& context);

// "https://host:port/path" into tls, host, port and base_path.
absl::Status ParseServerUrl(std::string_view url, Access* access);

// As it stands in a Host header: an IPv6 address in brackets, the port unless it is the usual one.
std::string HostHeader(const Access& access);

// A token as a header may carry it: without white space around it; empty or with a control
// character inside: refused.
absl::StatusOr<std::string> CleanToken(std::string_view text);

}  // namespace sandbroker::kube

// A kubeconfig: any text is read, or refused with the file's name; what was read can be put into
// a request without ending a header.
#include "absl/status/status.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/kube/access.h"
#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {

std::vector<std::string> Seeds() {
  return {
      "clusters: [{name: c, cluster: {server: 'https://[::1]:6443/x', "
      "certificate-authority-data: Q0E=}}]\nusers: [{name: u, user: {token: t}}]\n"
      "contexts: [{name: x, context: {cluster: c, user: u, namespace: n}}]\ncurrent-context: x\n",
      "apiVersion: v1\nclusters:\n- name: c\n  cluster:\n    server: http://h:1\n"
      "    insecure-skip-tls-verify: true\nusers:\n- name: u\n  user:\n    tokenFile: f\n"
      "contexts:\n- name: x\n  context: {cluster: c, user: u}\ncurrent-context: x\n",
      "users: [{name: u, user: {exec: {}, client-certificate: f, client-key: f}}]\n",
      "a: &x [*x, {? b : !!binary c}]\n",
  };
}

}  // namespace sandbroker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandbroker;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const kube::FileReader read = [&](const std::string& path) -> absl::StatusOr<std::string> {
    if (path == "/k/config") return text;
    if (path == "/k/f") return std::string("content\n");
    return absl::NotFoundError("no such file");
  };
  const auto access = kube::KubeconfigAccess("/k/config", "", read);
  if (!access.ok()) {
    SANDBROKER_CHECK(MessageOf(access.status()).find("/k/config") != std::string_view::npos);
    return 0;
  }
  for (const std::string& part : {kube::HostHeader(*access), access->base_path, access->token}) {
    SANDBROKER_CHECK(part.find_first_of(std::string("\r\n \0", 4)) == std::string::npos);
  }
  SANDBROKER_CHECK(!access->host.empty() && access->port != 0);
  return 0;
}

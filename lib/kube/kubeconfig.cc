// The part of a kubeconfig that says where and as whom; what would have to run a program or ask
// somebody is refused by name. yaml-cpp throws; nothing leaves this file but a Status.
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "lib/base/strings.h"
#include "lib/kube/access.h"

namespace sandbroker::kube {
namespace {

// yaml-cpp copies what an alias names when it is walked; a file that is deeper than this is none.
constexpr size_t kMaxText = 1024 * 1024;

struct Named {
  std::string_view list;   // "clusters"
  std::string_view inner;  // "cluster"
};

class Reader {
 public:
  Reader(std::string file, const FileReader& read) : file_(std::move(file)), read_(read) {}

  absl::StatusOr<Access> Read(const YAML::Node& root, const std::string& wanted) {
    if (!root.IsMap()) return Bad("not a map");
    std::string context = wanted;
    if (context.empty()) context = Text(root, "current-context");
    if (context.empty()) return Bad("no current-context, and none was named");
    const YAML::Node chosen = Find(root, {"contexts", "context"}, context);
    const YAML::Node cluster = Find(root, {"clusters", "cluster"}, Text(chosen, "cluster"));
    access_.space = Text(chosen, "namespace");
    ReadCluster(cluster);
    // A context without a user is one that needs no credentials.
    if (const std::string user = Text(chosen, "user"); !user.empty()) {
      ReadUser(Find(root, {"users", "user"}, user), user);
    }
    if (!wrong_.ok()) return wrong_;
    return std::move(access_);
  }

 private:
  absl::Status Bad(std::string_view what) const {
    return absl::InvalidArgumentError(StrCat(file_, ": ", what));
  }
  void Wrong(std::string_view what) {
    if (wrong_.ok()) wrong_ = Bad(what);
  }

  // Empty when it is not there or null.
  std::string Text(const YAML::Node& map, const std::string& key) {
    if (!map.IsDefined() || !map.IsMap()) return "";
    const YAML::Node value = map[key];
    if (!value.IsDefined() || value.IsNull()) return "";
    if (!value.IsScalar() || value.Scalar().find('\0') != std::string::npos) {
      Wrong(StrCat(key, ": needs a text"));
      return "";
    }
    return value.Scalar();
  }

  YAML::Node Find(const YAML::Node& root, Named what, const std::string& name) {
    const YAML::Node list = root[std::string(what.list)];
    if (list.IsDefined() && list.IsSequence()) {
      for (const YAML::Node& entry : list) {
        if (!entry.IsMap() || Text(entry, "name") != name) continue;
        const YAML::Node inner = entry[std::string(what.inner)];
        if (inner.IsDefined() && inner.IsMap()) return inner;
      }
    }
    Wrong(StrCat(what.list, ": no ", what.inner, " named '", CEscape(name), "'"));
    return YAML::Node(YAML::NodeType::Map);
  }

  // KEY names a file, KEY-data holds the same in base64 and wins.
  std::string Material(const YAML::Node& map, const std::string& key, std::string* path) {
    const std::string data = Text(map, key + "-data");
    if (!data.empty()) {
      std::string raw;
      if (absl::Base64Unescape(data, &raw)) return raw;
      Wrong(StrCat(key, "-data: not base64"));
      return "";
    }
    const std::string named = Text(map, key);
    if (named.empty()) return "";
    const std::string full = Full(named);
    if (path != nullptr) *path = full;
    return Content(key, full);
  }

  std::string Full(const std::string& named) const {
    return std::filesystem::path(file_).parent_path() / named;
  }
  std::string Content(const std::string& key, const std::string& path) {
    auto text = read_(path);
    if (text.ok()) return *std::move(text);
    Wrong(StrCat(key, ": ", FromAbsl(text.status().message())));
    return "";
  }

  void ReadCluster(const YAML::Node& cluster) {
    if (!wrong_.ok()) return;
    const absl::Status server = ParseServerUrl(Text(cluster, "server"), &access_);
    if (!server.ok()) Wrong(StrCat("server: ", FromAbsl(server.message())));
    if (!Text(cluster, "proxy-url").empty()) Wrong("proxy-url is not supported");
    access_.ca = Material(cluster, "certificate-authority", &access_.ca_file);
    access_.server_name = Text(cluster, "tls-server-name");
    const std::string insecure = Text(cluster, "insecure-skip-tls-verify");
    access_.insecure = insecure == "true";
    if (!insecure.empty() && insecure != "true" && insecure != "false") {
      Wrong("insecure-skip-tls-verify: needs true or false");
    }
    if (access_.insecure && !access_.ca.empty()) {
      Wrong("insecure-skip-tls-verify beside a certificate-authority: one of them is a mistake");
    }
  }

  void ReadUser(const YAML::Node& user, const std::string& name) {
    if (!wrong_.ok()) return;
    for (const char* other : {"exec", "auth-provider", "username", "password", "as", "as-uid",
                              "as-groups", "as-user-extra"}) {
      const YAML::Node value = user[other];
      if (!value.IsDefined() || value.IsNull()) continue;
      Wrong(StrCat("user '", CEscape(name), "': ", other,
                   " is not supported; use token, tokenFile or a client certificate"));
    }
    access_.client_certificate = Material(user, "client-certificate", nullptr);
    access_.client_key = Material(user, "client-key", nullptr);
    if (access_.client_certificate.empty() != access_.client_key.empty()) {
      Wrong("client-certificate and client-key need each other");
    }
    access_.token = Text(user, "token");
    if (const std::string path = Text(user, "tokenFile"); !path.empty()) {
      access_.token_file = Full(path);
      access_.token = Content("tokenFile", access_.token_file);
    }
    if (access_.token.empty() && access_.token_file.empty()) return;
    auto clean = CleanToken(access_.token);
    if (clean.ok()) {
      access_.token = *std::move(clean);
    } else {
      Wrong(StrCat("user '", CEscape(name), "': ", FromAbsl(clean.status().message())));
    }
  }

  const std::string file_;
  const FileReader& read_;
  Access access_;
  absl::Status wrong_;
};

}  // namespace

absl::StatusOr<Access> KubeconfigAccess(const std::string& file, const std::string& context,
                                        const FileReader& read) {
  const auto text = read(file);
  if (!text.ok()) return text.status();
  if (text->size() > kMaxText) return absl::InvalidArgumentError(StrCat(file, ": too large"));
  try {
    return Reader(file, read).Read(YAML::Load(*text), context);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(StrCat(file, ": ", error.what()));
  }
}

}  // namespace sandbroker::kube

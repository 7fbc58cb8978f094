#include "lib/kube/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::kube {
namespace {

using ::testing::HasSubstr;

FileReader Files(const std::map<std::string, std::string>& files) {
  return [files](const std::string& path) -> absl::StatusOr<std::string> {
    const auto it = files.find(path);
    if (it == files.end()) return absl::NotFoundError(StrCat(path, ": no such file"));
    return it->second;
  };
}

const std::map<std::string, std::string> kAccount = {
    {"/sa/token", "secret\n"}, {"/sa/ca.crt", "CA"}, {"/sa/namespace", "boxes\n"}};

absl::StatusOr<Access> Config(const std::string& text, const std::string& context = "",
                              std::map<std::string, std::string> more = {}) {
  more["/etc/kube/config"] = text;
  return KubeconfigAccess("/etc/kube/config", context, Files(more));
}

std::string Text(const absl::StatusOr<Access>& access) {
  return access.ok() ? "" : std::string(MessageOf(access.status()));
}

// One cluster, one user, one context, with more lines in the cluster's and the user's map.
std::string Simple(const std::string& cluster, const std::string& user) {
  return "clusters: [{name: c, cluster: {server: 'https://h:6443'" + cluster +
         "}}]\n"
         "users: [{name: u, user: {" +
         user +
         "}}]\n"
         "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
}

TEST(InClusterAccessTest, Account_IsReadWithItsFilesForLater) {
  const auto access = InClusterAccess("10.0.0.1", "443", "/sa", Files(kAccount));
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->host, "10.0.0.1");
  EXPECT_EQ(access->port, 443);
  EXPECT_TRUE(access->tls);
  EXPECT_EQ(access->token, "secret");
  EXPECT_EQ(access->token_file, "/sa/token");
  EXPECT_EQ(access->ca, "CA");
  EXPECT_EQ(access->space, "boxes");
}

TEST(InClusterAccessTest, Ipv6_BareAndInBrackets_IsOneHostAndGetsBracketsInTheHeader) {
  for (const char* host : {"fd00::1", "[fd00::1]"}) {
    const auto access = InClusterAccess(host, "6443", "/sa", Files(kAccount));
    ASSERT_TRUE(access.ok()) << access.status();
    EXPECT_EQ(access->host, "fd00::1");
    EXPECT_EQ(HostHeader(*access), "[fd00::1]:6443");
  }
}

TEST(InClusterAccessTest, NoEnvironment_NoToken_EmptyToken_BadPort_AreNamed) {
  EXPECT_THAT(Text(InClusterAccess("", "443", "/sa", Files(kAccount))), HasSubstr("not in a pod"));
  EXPECT_THAT(Text(InClusterAccess("h", "443", "/no", Files(kAccount))), HasSubstr("/no/token"));
  EXPECT_THAT(Text(InClusterAccess("h", "443", "/sa", Files({{"/sa/token", " \n"}}))),
              HasSubstr("/sa/token"));
  EXPECT_THAT(Text(InClusterAccess("h", "443", "/sa", Files({{"/sa/token", "a\r\nX: y"}}))),
              HasSubstr("no header may have"));
  for (const char* port : {"0", "65536", "x", "44 3", "-1"}) {
    EXPECT_THAT(Text(InClusterAccess("h", port, "/sa", Files(kAccount))),
                HasSubstr("KUBERNETES_SERVICE_PORT"))
        << port;
  }
  EXPECT_THAT(Text(InClusterAccess("a b", "443", "/sa", Files(kAccount))), HasSubstr("no host"));
}

TEST(ServerUrlTest, GoodOnes_AreTakenApart) {
  Access access;
  ASSERT_TRUE(ParseServerUrl("https://api.example:6443/clusters/x/", &access).ok());
  EXPECT_EQ(access.host, "api.example");
  EXPECT_EQ(access.port, 6443);
  EXPECT_EQ(access.base_path, "/clusters/x");
  ASSERT_TRUE(ParseServerUrl("http://[::1]", &access).ok());
  EXPECT_FALSE(access.tls);
  EXPECT_EQ(access.host, "::1");
  EXPECT_EQ(access.port, 80);
  EXPECT_EQ(access.base_path, "");
}

TEST(ServerUrlTest, OddOnes_AreRefused) {
  for (const char* url : {"", "h:6443", "ftp://h", "https://", "https://h:", "https://h:0",
                          "https://[::1", "https://[::1]x", "https://[::1]:", "https://a b/",
                          "https://u@h/", "https://h/a b", "https://h/?x", "https://h\r\n/"}) {
    Access access;
    EXPECT_FALSE(ParseServerUrl(url, &access).ok()) << url;
  }
}

TEST(KubeconfigTest, DataTexts_AreDecoded) {
  const auto access = Config(Simple(", certificate-authority-data: Q0E=, tls-server-name: api",
                                    "client-certificate-data: Q0VSVA==, client-key-data: S0VZ"));
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->ca, "CA");
  EXPECT_EQ(access->ca_file, "");
  EXPECT_EQ(access->server_name, "api");
  EXPECT_EQ(access->client_certificate, "CERT");
  EXPECT_EQ(access->client_key, "KEY");
}

TEST(KubeconfigTest, Files_AreReadFromTheFolderOfTheConfigAndKeptForLater) {
  const auto access = Config(Simple(", certificate-authority: pki/ca.crt", "tokenFile: /run/token"),
                             "", {{"/etc/kube/pki/ca.crt", "CA"}, {"/run/token", "t1\n"}});
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->ca, "CA");
  EXPECT_EQ(access->ca_file, "/etc/kube/pki/ca.crt");
  EXPECT_EQ(access->token, "t1");
  EXPECT_EQ(access->token_file, "/run/token");
}

TEST(KubeconfigTest, Contexts_TheNamedOneWinsOverTheCurrentOne) {
  const std::string text =
      "clusters: [{name: a, cluster: {server: 'https://a'}}, {name: b, cluster: {server: "
      "'http://b:1'}}]\nusers: [{name: u, user: {token: t}}]\n"
      "contexts: [{name: x, context: {cluster: a, user: u}}, {name: y, context: {cluster: b, "
      "namespace: n}}]\ncurrent-context: x\n";
  EXPECT_EQ(Config(text)->host, "a");
  EXPECT_EQ(Config(text)->token, "t");
  const auto other = Config(text, "y");
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->host, "b");
  EXPECT_EQ(other->space, "n");
  EXPECT_EQ(other->token, "");
  EXPECT_THAT(Text(Config(text, "z")), HasSubstr("no context named 'z'"));
}

TEST(KubeconfigTest, OtherWaysToProveOneself_AreRefusedByName) {
  for (const char* user : {"exec: {command: aws}", "auth-provider: {name: gcp}", "username: u",
                           "password: p", "as: somebody"}) {
    const std::string key(user, std::string(user).find(':'));
    const auto access = Config(Simple("", user));
    EXPECT_THAT(Text(access), HasSubstr(key + " is not supported")) << user;
    EXPECT_THAT(Text(access), HasSubstr("/etc/kube/config"));
  }
  EXPECT_THAT(Text(Config(Simple(", proxy-url: 'http://p'", "token: t"))), HasSubstr("proxy-url"));
}

TEST(KubeconfigTest, OddTexts_AreRefusedWithTheFile) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("a: ["), std::string("\0x", 2),
        std::string("clusters: 5\ncurrent-context: x"), std::string("current-context: {a: b}"),
        Simple(", certificate-authority-data: '*'", "token: t"),
        Simple(", certificate-authority: missing", "token: t"),
        Simple(", insecure-skip-tls-verify: maybe", "token: t"),
        Simple(", insecure-skip-tls-verify: true, certificate-authority-data: Q0E=", "token: t"),
        Simple("", "client-key-data: S0VZ"), Simple("", "token: [t]"),
        Simple("", "token: \"a\\nb\""), Simple("", "tokenFile: missing")}) {
    EXPECT_THAT(Text(Config(text)), HasSubstr("/etc/kube/config")) << text;
  }
}

}  // namespace
}  // namespace sandbroker::kube

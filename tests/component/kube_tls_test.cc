// A client that proves itself and its server by certificates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/component/kube_fixture.h"
#include "tests/support/test_certificates.h"

namespace sandbroker::testing {
namespace {

using kube::Outcome;
using kube::Result;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const TestCertificate& Authority() {
  static const TestCertificate authority = MakeAuthority("ca");
  return authority;
}

ScriptedApiServer::Options TlsOptions() {
  const TestCertificate own = MakeCertificate(Authority(), "api", "IP:127.0.0.1,DNS:api.example");
  return {own.certificate, own.key, Authority().certificate, ""};
}

class KubeTlsTest : public KubeFixture {
 protected:
  KubeTlsTest() : KubeFixture(TlsOptions()) {}
  kube::Access Good() {
    kube::Access access = server_.access();
    const TestCertificate own = MakeCertificate(Authority(), "client", "");
    access.ca = Authority().certificate;
    access.client_certificate = own.certificate;
    access.client_key = own.key;
    return access;
  }
};

TEST_F(KubeTlsTest, AuthorityAndClientCertificate_AreEnough_AndConnectionsAreKept) {
  Connect(Good());
  for (int i = 0; i < 3; ++i) {
    const Result result = Call(Create("p" + std::to_string(i)));
    ASSERT_TRUE(result.ok()) << result.message;
  }
  EXPECT_EQ(server_.connections(), 1);
}

TEST_F(KubeTlsTest, OtherAuthority_OrOtherName_NothingIsSent) {
  kube::Access stranger = Good();
  stranger.ca = MakeAuthority("another").certificate;
  kube::Access misnamed = Good();
  misnamed.server_name = "other.example";
  for (const kube::Access& access : {stranger, misnamed}) {
    Connect(access);
    const Result result = Call(Create("a", seconds(1)));
    EXPECT_EQ(result.outcome, Outcome::kNotSent);
    EXPECT_THAT(result.message, HasSubstr("TLS"));
  }
  EXPECT_EQ(server_.Count(""), 0u);
}

TEST_F(KubeTlsTest, ServerName_AndInsecure_AreHonoured) {
  kube::Access named = Good();
  named.server_name = "api.example";
  kube::Access insecure = Good();
  insecure.ca = "";
  insecure.insecure = true;
  insecure.server_name = "whatever";
  for (const kube::Access& access : {named, insecure}) {
    Connect(access);
    const Result result = Call(List());
    EXPECT_TRUE(result.ok()) << result.message;
  }
}

TEST_F(KubeTlsTest, NoClientCertificate_IsNoSuccess) {
  kube::Access access = Good();
  access.client_certificate = access.client_key = "";
  Connect(access);
  EXPECT_FALSE(Call(Create("a", seconds(1))).ok());
  EXPECT_EQ(server_.Count(""), 0u);
}

TEST_F(KubeTlsTest, CertificatesThatAreNone_AreNamedAndNothingIsSent) {
  kube::Access access = Good();
  access.client_key = "-----BEGIN NONSENSE-----";
  Connect(access);
  OnLoop([this] { EXPECT_FALSE(client_->status().ok()); });
  const Result result = Call(Create("a", milliseconds(500)));
  EXPECT_EQ(result.outcome, Outcome::kNotSent);
  EXPECT_THAT(result.message, HasSubstr("client key"));
}

TEST_F(KubeTlsTest, AuthorityThatIsReplaced_IsReadAgain) {
  kube::Access access = Good();
  access.ca = MakeAuthority("old").certificate;
  access.ca_file = "/ca";
  SetFile("/ca", Authority().certificate);
  Connect(access);
  EXPECT_EQ(Call(Create("a", seconds(1))).outcome, Outcome::kNotSent);
  OnLoop([this] { client_->transport().credentials().Reread(); });
  EXPECT_TRUE(Call(Create("a")).ok());
}

}  // namespace
}  // namespace sandbroker::testing

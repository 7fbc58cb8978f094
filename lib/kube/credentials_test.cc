#include "lib/kube/credentials.h"

#include <gtest/gtest.h>

#include <map>

namespace sandbroker::kube {
namespace {

using std::chrono::seconds;

class HandClock final : public Clock {
 public:
  Time Now() const override { return now; }
  WallTime WallNow() const override { return {}; }
  Time now{};
};

class CredentialsTest : public ::testing::Test {
 protected:
  Credentials Make() {
    Access access;
    access.tls = false;
    access.token = "one";
    access.token_file = "/token";
    return {clock_, access, [this](const std::string&) -> absl::StatusOr<std::string> {
              ++reads_;
              if (file_.empty()) return absl::NotFoundError("gone");
              return file_;
            }};
  }

  HandClock clock_;
  std::string file_ = "one";
  int reads_ = 0;
};

TEST_F(CredentialsTest, Token_IsReadAgainAfterAWhileAndNotBefore) {
  Credentials credentials = Make();
  file_ = "two\n";
  EXPECT_EQ(credentials.Token(), "one");
  EXPECT_EQ(reads_, 0);
  clock_.now += Credentials::kRecheck;
  EXPECT_EQ(credentials.Token(), "two");
  EXPECT_EQ(credentials.Token(), "two");
  EXPECT_EQ(reads_, 1);
}

TEST_F(CredentialsTest, Reread_LooksAtOnce) {
  Credentials credentials = Make();
  file_ = "two";
  credentials.Reread();
  EXPECT_EQ(credentials.Token(), "two");
}

TEST_F(CredentialsTest, FileThatIsGoneOrMakesNoSense_LeavesTheTokenAsItWas) {
  Credentials credentials = Make();
  for (const char* text : {"", "\n", "a b", "a\r\nX: y"}) {
    file_ = text;
    credentials.Reread();
    EXPECT_EQ(credentials.Token(), "one") << text;
  }
}

TEST_F(CredentialsTest, PlainHttp_HasNoTls_AndNonsenseIsNamed) {
  EXPECT_EQ(Make().Tls(), nullptr);
  Access access;
  access.ca = "no certificate";
  Credentials bad(clock_, access, ReadSmallFile);
  EXPECT_FALSE(bad.status().ok());
  EXPECT_EQ(bad.Tls(), nullptr);
}

}  // namespace
}  // namespace sandbroker::kube

#include "server/app/state_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/base/status.h"

namespace sandbroker::app {
namespace {

using testing::HasSubstr;

class StateDirTest : public testing::Test {
 protected:
  StateDirTest() {
    std::string made = testing::TempDir() + "state_XXXXXX";
    root_ = mkdtemp(made.data());
    path_ = root_ + "/a/b";
  }
  ~StateDirTest() override { std::filesystem::remove_all(root_); }

  std::string ErrorOf() {
    const auto opened = StateDir::Open(path_);
    return opened.ok() ? "OK" : std::string(MessageOf(opened.status()));
  }
  mode_t ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }

  std::string root_;
  std::string path_;
};

TEST_F(StateDirTest, Open_MakesDirectoryLockVersionAndKey) {
  const auto opened = StateDir::Open(path_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->key().size(), 32u);
  EXPECT_EQ(ModeOf(path_), 0700u);
  EXPECT_EQ(ModeOf(path_ + "/key"), 0600u);
  EXPECT_TRUE(std::filesystem::exists(path_ + "/lock"));
  std::string version;
  std::ifstream(path_ + "/version") >> version;
  EXPECT_EQ(version, "1");
}

TEST_F(StateDirTest, Key_StaysTheSame) {
  std::string first;
  {
    const auto opened = StateDir::Open(path_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    first = opened->key();
  }
  const auto again = StateDir::Open(path_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->key(), first);
}

TEST_F(StateDirTest, SecondBroker_IsToldWhoHoldsTheLock) {
  const auto first = StateDir::Open(path_);
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(ErrorOf(), HasSubstr("used by another broker, pid " + std::to_string(getpid())));
}

TEST_F(StateDirTest, LayoutOfAnotherVersion_IsRefused) {
  ASSERT_EQ(ErrorOf(), "OK");
  std::ofstream(path_ + "/version") << "2\n";
  EXPECT_THAT(ErrorOf(), HasSubstr("has layout version '2', this broker knows 1"));
}

TEST_F(StateDirTest, KeyOfWrongSizeOrMode_IsRefusedWithoutShowingIt) {
  ASSERT_EQ(ErrorOf(), "OK");
  std::ofstream(path_ + "/key", std::ios::trunc) << "s3cret";
  EXPECT_THAT(ErrorOf(), HasSubstr("key does not hold 32 bytes"));
  EXPECT_THAT(ErrorOf(), testing::Not(HasSubstr("s3cret")));
  chmod((path_ + "/key").c_str(), 0644);
  EXPECT_THAT(ErrorOf(), HasSubstr("others may read key"));
}

TEST_F(StateDirTest, DirectoryThatOthersMayWrite_IsRefused) {
  ASSERT_EQ(ErrorOf(), "OK");
  chmod(path_.c_str(), 0777);
  EXPECT_THAT(ErrorOf(), HasSubstr("others may write to it"));
}

TEST_F(StateDirTest, FileInTheWay_IsRefused) {
  std::ofstream(root_ + "/a") << "x";
  EXPECT_THAT(ErrorOf(), HasSubstr("--state-dir"));
}

}  // namespace
}  // namespace sandbroker::app

#include "server/app/link_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "lib/base/status.h"
#include "server/app/state_dir.h"

namespace sandbroker::app {
namespace {

using testing::HasSubstr;

class LinkKeyTest : public testing::Test {
 protected:
  LinkKeyTest() {
    std::string made = testing::TempDir() + "link_key_XXXXXX";
    root_ = mkdtemp(made.data());
    path_ = root_ + "/state";
  }
  ~LinkKeyTest() override { std::filesystem::remove_all(root_); }

  std::string ErrorOf() {
    const auto key = ReadOrMakeLinkKey(path_);
    return key.ok() ? "OK" : std::string(MessageOf(key.status()));
  }

  std::string root_;
  std::string path_;
};

TEST_F(LinkKeyTest, IsMadeOnceAndPrivateBesideARunningBroker) {
  const auto running = StateDir::Open(path_);
  ASSERT_TRUE(running.ok()) << running.status();
  const auto made = ReadOrMakeLinkKey(path_);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto again = ReadOrMakeLinkKey(path_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->PublicBase64(), made->PublicBase64());
  struct stat info {};
  ASSERT_EQ(stat((path_ + "/link_key.pem").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // Lock, version, the key of handles, and this one: no temporary is left.
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) files += entry.exists();
  EXPECT_EQ(files, 4u);
}

TEST_F(LinkKeyTest, OneThatOthersMayRead_IsRefused) {
  ASSERT_EQ(ErrorOf(), "OK");
  chmod((path_ + "/link_key.pem").c_str(), 0640);
  EXPECT_THAT(ErrorOf(), HasSubstr("others may read it"));
}

TEST_F(LinkKeyTest, WhatIsNoKey_IsRefusedAndKept) {
  ASSERT_EQ(ErrorOf(), "OK");
  std::ofstream(path_ + "/link_key.pem") << "no key";
  EXPECT_THAT(ErrorOf(), HasSubstr("can't be read"));
  std::string text;
  std::getline(std::ifstream(path_ + "/link_key.pem"), text);
  EXPECT_EQ(text, "no key");
}

}  // namespace
}  // namespace sandbroker::app

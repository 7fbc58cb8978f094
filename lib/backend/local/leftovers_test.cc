#include "lib/backend/local/leftovers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/ids.h"

namespace sandbroker::local {
namespace {

class Leftovers : public ::testing::Test {
 protected:
  Leftovers() : root_(MakeRoot()), files_(root_ + "/sandboxes") {
    EXPECT_TRUE(files_.MakeDirectory().ok());
  }
  ~Leftovers() override { std::filesystem::remove_all(root_); }

  static std::string MakeRoot() {
    char pattern[] = "/tmp/leftoversXXXXXX";
    return mkdtemp(pattern);
  }
  // A warm sandbox whose agent is `agent`, written down; answers its uid.
  std::string Write(ProcessName agent, const std::string& host = HostName()) {
    SandboxRecord record;
    record.uid = NewId();
    record.pool = "default";
    record.phase = broker::RecordPhase::kWarm;
    record.secret = std::string(32, 's');
    record.host = host;
    record.boot_id = NewId();
    record.agent = agent;
    mkdir(files_.FolderOf(record.uid).c_str(), 0700);
    EXPECT_TRUE(files_.Write(record.uid, EncodeRecord(record)).ok());
    return record.uid;
  }
  FoundSandbox Only() {
    auto found = FindLeftovers(files_);
    EXPECT_EQ(found.size(), 1u);
    return std::move(found.at(0));
  }

  const std::string root_;
  RecordFiles files_;
  const ProcessName me_{getpid(), StartTimeOf(getpid()).value_or(0)};
};

TEST_F(Leftovers, Record_IsPrivateAndWholeAndLeavesNoTemporary) {
  const std::string uid = Write(me_);
  struct stat info {};
  ASSERT_EQ(stat((files_.FolderOf(uid) + "/state.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_TRUE(ParseRecord(*files_.Read(uid), uid).ok());
  EXPECT_FALSE(std::filesystem::exists(files_.FolderOf(uid) + "/.state.json"));
  files_.Remove(uid);
  EXPECT_TRUE(files_.List().empty());
  EXPECT_TRUE(absl::IsNotFound(files_.Write(uid, "late")));
}

TEST_F(Leftovers, LivingAgent_IsFoundAndHeld) {
  Write(me_);
  const FoundSandbox found = Only();
  EXPECT_TRUE(found.record && found.alive && found.agent.valid());
}

TEST_F(Leftovers, RecycledPid_IsNotTheAgent) {
  Write({me_.pid, me_.start + 1});
  const FoundSandbox found = Only();
  EXPECT_TRUE(found.record);
  EXPECT_FALSE(found.alive || found.agent.valid());
}

TEST_F(Leftovers, PidOfAnotherBootOrNamespace_MeansNothing) {
  Write(me_, "another");
  EXPECT_FALSE(Only().alive);
}

TEST_F(Leftovers, GarbledOrMissingRecord_IsToldAndNotBelieved) {
  const std::string uid = Write(me_);
  std::ofstream(files_.FolderOf(uid) + "/state.json", std::ios::trunc) << "{\"version\":1";
  FoundSandbox found = Only();
  EXPECT_FALSE(found.record || found.alive);
  EXPECT_NE(found.complaint, "");
  unlink((files_.FolderOf(uid) + "/state.json").c_str());
  EXPECT_NE(Only().complaint, "");
  files_.Remove(uid);
  // Something else altogether lies there.
  std::ofstream(files_.FolderOf("stray file")) << "x";
  found = Only();
  EXPECT_EQ(found.uid, "stray file");
  EXPECT_FALSE(found.record || found.alive);
}

}  // namespace
}  // namespace sandbroker::local

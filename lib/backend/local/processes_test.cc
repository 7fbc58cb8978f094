#include "lib/backend/local/processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/ids.h"
#include "lib/base/strings.h"
#include "lib/process/spawn.h"

namespace sandbroker::local {
namespace {

// A program whose command line names a sandbox, ended with the test. It has stopped itself before
// the test goes on: until execve is done its command line is empty, and a fork would bear it as
// well.
class Marked {
 public:
  explicit Marked(const std::string& uid) {
    SpawnSpec spec;
    spec.path = "/bin/sh";
    spec.argv = {"sh", "-c", "kill -STOP $$; :", kSandboxFlag, uid};
    EXPECT_FALSE(Spawn(spec, &spawned_));
    siginfo_t info = {};
    waitid(P_PID, static_cast<id_t>(spawned_.pid), &info, WSTOPPED | WEXITED | WNOWAIT);
    EXPECT_EQ(info.si_code, CLD_STOPPED);
  }
  ~Marked() {
    SignalProcess(spawned_.pidfd.get(), SIGKILL);
    waitpid(spawned_.pid, nullptr, 0);
  }
  pid_t pid() const { return spawned_.pid; }

 private:
  Spawned spawned_;
};

TEST(Processes, Name_IsOfOneLifeOfThePid) {
  const auto start = StartTimeOf(getpid());
  ASSERT_TRUE(start);
  EXPECT_TRUE(OpenProcess({getpid(), *start}).valid());
  EXPECT_FALSE(OpenProcess({getpid(), *start + 1}).valid());
  EXPECT_FALSE(OpenProcess({0, 0}).valid());
}

TEST(Processes, Ended_IsNotFoundThoughNobodyHasWaitedForIt) {
  const std::string uid = NewId();
  const Marked one(uid);
  const ProcessName name{one.pid(), StartTimeOf(one.pid()).value_or(0)};
  const UniqueFd pidfd = OpenProcess(name);
  ASSERT_TRUE(pidfd.valid());
  EXPECT_TRUE(EndMarked({uid}, std::chrono::seconds(10)).empty());
  EXPECT_FALSE(OpenProcess(name).valid());
}

TEST(Processes, EndMarked_EndsThoseItNamesAndNoOther) {
  const std::string uid = NewId();
  const std::string other_uid = NewId();
  const Marked one(uid);
  const Marked two(uid);
  const Marked other(other_uid);
  ASSERT_EQ(FindMarked()[uid].size(), 2u);
  EXPECT_TRUE(EndMarked({uid}, std::chrono::seconds(10)).empty());
  const auto left = FindMarked();
  EXPECT_EQ(left.count(uid), 0u);
  EXPECT_EQ(left.count(other_uid), 1u);
}

TEST(Processes, HostName_IsStableWithinOneBoot) {
  EXPECT_EQ(HostName(), HostName());
  EXPECT_GT(HostName().size(), 36u);
}

}  // namespace
}  // namespace sandbroker::local

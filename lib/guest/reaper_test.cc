#include "lib/guest/reaper.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "lib/guest/child_list.h"
#include "lib/process/spawn.h"
#include "tests/support/programs.h"

namespace sandbroker::guest {
namespace {

using std::chrono::seconds;

class ReaperTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0); }
  void TearDown() override { EXPECT_TRUE(Reaper(io_).EndAll(seconds(20))); }
  pid_t Shell(const std::string& script) {
    Spawned spawned;
    EXPECT_FALSE(Spawn(test::Shell(script), &spawned));
    return spawned.pid;
  }
  // Sweeps to its end, by the reaper's own timer.
  bool Swept() {
    bool swept = false;
    reaper_.Sweep([&] { swept = true; });
    io_.restart();
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    while (!swept && std::chrono::steady_clock::now() < deadline) {
      io_.run_one_for(std::chrono::milliseconds(100));
    }
    return swept;
  }
  static bool Lives(pid_t pid) {
    siginfo_t info = {};
    return ::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
  }
  static std::set<pid_t> Children(decltype(&ForEachChild) each) {
    std::set<pid_t> pids;
    each([&](pid_t pid) { return pids.insert(pid).second; });
    return pids;
  }
  boost::asio::io_context io_{1};
  Reaper reaper_{io_};
};

TEST_F(ReaperTest, BothListsOfChildren_AreTheSame) {
  const std::set<pid_t> mine = {Shell("sleep 1000"), Shell("sleep 1000"), Shell("exit 0")};
  EXPECT_EQ(Children(&ForEachChild), mine);
  EXPECT_EQ(Children(&ForEachChildByParent), mine);
}

TEST_F(ReaperTest, Sweep_EndsStrangersAndWhatTheyLeaveToUs) {
  for (int i = 0; i < 300; ++i) Shell("sleep 1000 & setsid sleep 1000");
  EXPECT_TRUE(Swept());
  EXPECT_TRUE(Children(&ForEachChild).empty());
}

TEST_F(ReaperTest, Sweep_TouchesNeitherSupervisorsNorWhoWasThereBefore) {
  const pid_t before = Shell("sleep 1000");
  reaper_.SpareExisting();
  const pid_t supervisor = Shell("sleep 1000");
  int ended = 0;
  reaper_.WatchSupervisor(supervisor, [&](const siginfo_t&) { ++ended; });
  const pid_t stranger = Shell("sleep 1000");
  EXPECT_TRUE(Swept());
  EXPECT_FALSE(Lives(stranger));
  EXPECT_TRUE(Lives(before));
  EXPECT_TRUE(Lives(supervisor));
  EXPECT_EQ(ended, 0);
  // The agent's own end takes supervisors along, and tells so.
  EXPECT_TRUE(reaper_.EndAll(seconds(20)));
  EXPECT_EQ(ended, 1);
  EXPECT_TRUE(Lives(before));
}

TEST_F(ReaperTest, ProgramOfADeadSupervisor_IsAStrangerWhoseEndIsTold) {
  const pid_t program = Shell("sleep 1000");
  siginfo_t seen = {};
  reaper_.WatchProgram(program, this, [&](const siginfo_t& info) { seen = info; });
  EXPECT_TRUE(Swept());
  EXPECT_EQ(seen.si_pid, program);
  EXPECT_EQ(seen.si_status, SIGKILL);
}

TEST_F(ReaperTest, ForgottenProgram_StaysWatchedForItsNextOwner) {
  const pid_t program = Shell("exit 3");
  int told = 0;
  reaper_.WatchProgram(program, this, [&](const siginfo_t&) { ++told; });
  reaper_.ForgetProgram(program, &told);
  EXPECT_TRUE(Swept());
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace sandbroker::guest

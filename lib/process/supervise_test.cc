#include "lib/process/supervise.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <set>
#include <vector>

#include "tests/support/programs.h"

namespace sandbroker {
namespace {

using test::ChildrenOf;
using test::Shell;

constexpr int kBoundMs = 20000;

bool Until(const std::function<bool()>& done) {
  for (int i = 0; i < kBoundMs; ++i) {
    if (done()) return true;
    ::poll(nullptr, 0, 1);
  }
  return false;
}

class Supervise_ : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0); }
  // Nothing is left to the next test.
  void TearDown() override {
    for (const pid_t pid : ChildrenOf(::getpid())) ::kill(pid, SIGKILL);
    EXPECT_TRUE(Until([] {
      for (const pid_t pid : ChildrenOf(::getpid())) ::kill(pid, SIGKILL);
      return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
    }));
  }
  Supervised Started(const SpawnSpec& spec) {
    Supervised out;
    const auto error = Supervise(spec, &pool_, &out);
    EXPECT_FALSE(error) << (error ? error->step : "");
    return out;
  }
  // kind 0: the supervisor has closed its end.
  SupervisorEvent Next(const Supervised& supervised) {
    pollfd poll = {supervised.events.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&poll, 1, kBoundMs), 1);
    SupervisorEvent event;
    if (::read(supervised.events.get(), &event, sizeof(event)) != sizeof(event)) event.kind = 0;
    return event;
  }
  siginfo_t EndOf(pid_t pid) {
    siginfo_t info = {};
    EXPECT_EQ(::waitid(P_PID, pid, &info, WEXITED), 0);
    return info;
  }
  SupervisorPool pool_;
};

TEST_F(Supervise_, ProgramsEnd_IsToldAndLeftToTheCaller) {
  const Supervised one = Started(Shell("exit 7"));
  const SupervisorEvent event = Next(one);
  EXPECT_EQ(event.kind, SupervisorEvent::kProgramEnded);
  EXPECT_EQ(event.code, CLD_EXITED);
  EXPECT_EQ(event.status, 7);
  EXPECT_EQ(Next(one).kind, 0);
  EXPECT_EQ(EndOf(one.supervisor).si_status, 0);
  EXPECT_EQ(EndOf(one.program).si_status, 7);

  const Supervised other = Started(Shell("ulimit -c 0; kill -SEGV $$"));
  EXPECT_EQ(Next(other).status, SIGSEGV);
  EXPECT_EQ(EndOf(other.supervisor).si_code, CLD_EXITED);
  const siginfo_t end = EndOf(other.program);
  EXPECT_EQ(end.si_code, CLD_KILLED);
  EXPECT_EQ(end.si_status, SIGSEGV);
}

TEST_F(Supervise_, Failures_AreTypedAndLeaveNothing) {
  const auto failure = [&](const SpawnSpec& spec) {
    Supervised out;
    const auto error = Supervise(spec, &pool_, &out);
    EXPECT_TRUE(ChildrenOf(::getpid()).empty());
    return error.value_or(SpawnError{0, "none"});
  };
  SpawnSpec spec = Shell("true");
  spec.path = "/nonexistent/program";
  EXPECT_EQ(failure(spec).error_number, ENOENT);
  EXPECT_STREQ(failure(spec).step, "exec");
  spec = Shell("true");
  spec.cwd = "/etc/passwd";
  EXPECT_EQ(failure(spec).error_number, ENOTDIR);
  EXPECT_STREQ(failure(spec).step, "cwd");
  spec = Shell("true");
  spec.argv.emplace_back(4 << 20, 'x');
  EXPECT_EQ(failure(spec).error_number, E2BIG);
  spec = Shell("true");
  spec.fds = {{999, 1}};
  EXPECT_EQ(failure(spec).error_number, EBADF);
  EXPECT_STREQ(failure(spec).step, "fds");
}

TEST_F(Supervise_, Supervisor_HoldsNothingOfTheProgramsAndIsOutOfItsSession) {
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  UniqueFd read(fds[0]), write(fds[1]);
  SpawnSpec spec = Shell("exec >/dev/null; read x");
  int input[2];
  ASSERT_EQ(::pipe2(input, O_CLOEXEC), 0);
  UniqueFd input_read(input[0]), input_write(input[1]);
  spec.fds = {{input_read.get(), 0}, {write.get(), 1}};
  const Supervised one = Started(spec);
  write.Reset();
  char byte;
  EXPECT_EQ(::read(read.get(), &byte, 1), 0);  // the end, although all of them live
  const std::filesystem::path fds_of_it = "/proc/" + std::to_string(one.supervisor) + "/fd";
  EXPECT_TRUE(Until([&] {
    using std::filesystem::directory_iterator;
    return std::distance(directory_iterator(fds_of_it), directory_iterator()) == 1;
  }));
  EXPECT_EQ(::getpgid(one.program), one.program);
  EXPECT_EQ(::getsid(one.program), one.program);
  EXPECT_NE(::getsid(one.supervisor), one.program);
  EXPECT_EQ(ChildrenOf(one.supervisor), std::vector<pid_t>{one.program});
}

TEST_F(Supervise_, Orphans_AreReapedBeforeAndAfterTheProgramsEnd) {
  const Supervised one =
      Started(Shell("for i in 1 2 3 4 5 6 7 8 9; do (setsid true &) ; done; "
                    "(setsid sh -c 'for i in 1 2 3 4 5 6 7 8 9; do (true &) ; done; exec sleep "
                    "1000' &); exit 0"));
  EXPECT_EQ(Next(one).kind, SupervisorEvent::kProgramEnded);
  EXPECT_EQ(Next(one).kind, SupervisorEvent::kOthersRemain);
  EXPECT_EQ(Next(one).kind, SupervisorEvent::kSessionGone);
  // The sleep, and the program kept as a zombie.
  EXPECT_TRUE(Until([&] { return ChildrenOf(one.supervisor).size() == 2; }));
  EXPECT_EQ(::kill(-one.program, 0), 0);
  ::kill(one.supervisor, SIGKILL);
  EXPECT_EQ(EndOf(one.supervisor).si_code, CLD_KILLED);
  // Both are ours now, and perhaps one that was just ending.
  EXPECT_GE(ChildrenOf(::getpid()).size(), 2u);
  EXPECT_EQ(EndOf(one.program).si_status, 0);
}

TEST_F(Supervise_, OthersOfTheSession_KeepItUntilTheLastOfThemEnds) {
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  UniqueFd read(fds[0]), write(fds[1]);
  SpawnSpec spec = Shell("(head -c 1 >/dev/null)& (setsid sleep 1000 &) ; exit 1");
  spec.argv = {"bash", "-c", "cat <&0 >/dev/null & (setsid sleep 1000 >/dev/null <&- &) ; exit 1"};
  spec.path = "/bin/bash";
  UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  spec.fds = {{read.get(), 0}, {null.get(), 1}, {null.get(), 2}};
  const Supervised one = Started(spec);
  read.Reset();
  EXPECT_EQ(Next(one).kind, SupervisorEvent::kProgramEnded);
  EXPECT_EQ(Next(one).kind, SupervisorEvent::kOthersRemain);
  pollfd poll = {one.events.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 50), 0);
  write.Reset();  // the cat ends
  EXPECT_EQ(Next(one).kind, SupervisorEvent::kSessionGone);
}

TEST_F(Supervise_, WithoutAListOfChildren_TheProgramIsReapedAndSaidToBe) {
  SupervisorPool pool("/nonexistent");
  Supervised one;
  ASSERT_FALSE(Supervise(Shell("sleep 1000 & exit 4"), &pool, &one));
  EXPECT_EQ(Next(one).status, 4);
  EXPECT_EQ(Next(one).kind, SupervisorEvent::kOthersRemain);
  EXPECT_EQ(__atomic_load_n(&one.board->program_reaped, __ATOMIC_SEQ_CST), 1);
  for (const pid_t pid : ChildrenOf(one.supervisor)) ::kill(pid, SIGKILL);
  EXPECT_EQ(EndOf(one.supervisor).si_status, 0);
  EXPECT_TRUE(ChildrenOf(::getpid()).empty());
}

// Somebody sends `signal` to every child of ours, once each, while programs start.
class Attacker {
 public:
  explicit Attacker(int signal) : pid_(::fork()) {
    if (pid_ != 0) return;
    const pid_t victim = ::getppid();
    std::set<pid_t> seen{::getpid()};
    while (::getppid() == victim) {
      for (const pid_t child : ChildrenOf(victim)) {
        if (seen.insert(child).second) ::kill(child, signal);
      }
    }
    ::_exit(0);
  }
  ~Attacker() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  const pid_t pid_;
};

// Every start succeeds or has failed for certain; then nothing of it is there.
int StartUnderAttack(SupervisorPool* pool, const SpawnSpec& spec, int rounds) {
  int started = 0;
  for (int i = 0; i < rounds; ++i) {
    Supervised out;
    const auto error = Supervise(spec, pool, &out);
    if (error) {
      EXPECT_STREQ(error->step, "supervisor");
      continue;
    }
    ++started;
    EXPECT_TRUE(Until([&] {
      ::kill(out.supervisor, SIGCONT);
      return ::waitpid(out.supervisor, nullptr, WNOHANG) == out.supervisor;
    }));
    ::kill(out.program, SIGKILL);
    EXPECT_EQ(::waitpid(out.program, nullptr, 0), out.program);
  }
  return started;
}

TEST_F(Supervise_, SupervisorKilledWhileItStarts_LeavesNothingHalfStarted) {
  const Attacker attacker(SIGKILL);
  StartUnderAttack(&pool_, Shell("true"), 300);
  EXPECT_EQ(ChildrenOf(::getpid()).size(), 1u);  // the attacker
}

TEST_F(Supervise_, SupervisorStoppedWhileItStarts_IsWokenAgain) {
  const Attacker attacker(SIGSTOP);
  EXPECT_EQ(StartUnderAttack(&pool_, Shell("true"), 50), 50);
}

}  // namespace
}  // namespace sandbroker

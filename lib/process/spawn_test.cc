#include "lib/process/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/programs.h"

namespace sandbroker {
namespace {

using test::Shell;

struct Pipe {
  UniqueFd read, write;
  Pipe() {
    int fds[2];
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    read.Reset(fds[0]);
    write.Reset(fds[1]);
  }
  std::string Drain() {
    write.Reset();
    std::string all;
    char buffer[4096];
    ssize_t n;
    while ((n = ::read(read.get(), buffer, sizeof(buffer))) > 0) all.append(buffer, n);
    return all;
  }
};

int Wait(pid_t pid) {
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

std::string Output(SpawnSpec spec) {
  Pipe pipe;
  spec.fds.emplace_back(pipe.write.get(), 1);
  Spawned spawned;
  const auto error = Spawn(spec, &spawned);
  EXPECT_FALSE(error.has_value()) << (error ? error->step : "");
  if (error) return "";
  std::string text = pipe.Drain();
  Wait(spawned.pid);
  return text;
}

std::string TempDir() {
  char name[] = "/tmp/spawn_test.XXXXXX";
  return ::mkdtemp(name);
}

TEST(Spawn, ArgvAndEnvironment_ArriveAsTheyAre) {
  SpawnSpec spec;
  spec.argv = {"printf", "%s|", "a b", "", "$HOME\n\"'", std::string("\xff\xfe")};
  spec.path = "/usr/bin/printf";
  EXPECT_EQ(Output(spec), "a b||$HOME\n\"'|\xff\xfe|");
  SpawnSpec env;
  env.argv = {"env"};
  env.path = "/usr/bin/env";
  env.env = {"A=1", "B=two words"};
  EXPECT_EQ(Output(env), "A=1\nB=two words\n");
}

TEST(Spawn, Child_HasOwnSessionAndAPidfd) {
  Spawned spawned;
  ASSERT_FALSE(Spawn(Shell("read x"), &spawned));
  EXPECT_EQ(::getsid(spawned.pid), spawned.pid);
  EXPECT_EQ(::getpgid(spawned.pid), spawned.pid);
  siginfo_t info = {};
  ::kill(spawned.pid, SIGKILL);
  EXPECT_EQ(::waitid(static_cast<idtype_t>(3 /* P_PIDFD */), spawned.pidfd.get(), &info, WEXITED),
            0);
  EXPECT_EQ(info.si_pid, spawned.pid);
}

TEST(Spawn, SignalsIgnoredOrBlockedHere_AreDefaultInTheChild) {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t block, before;
  sigemptyset(&block);
  sigaddset(&block, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &block, &before);
  const std::string status = Output(Shell("grep -E '^Sig(Blk|Ign)' /proc/self/status"));
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  EXPECT_EQ(status, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(Spawn, Fds_MayOverlapTheirTargetsAndAllOthersAreClosed) {
  Pipe a, b;
  // Source and target swapped between two numbers, and a stray inheritable fd.
  UniqueFd low_a(::fcntl(a.write.get(), F_DUPFD, 10));
  UniqueFd low_b(::fcntl(b.write.get(), F_DUPFD, 10));
  UniqueFd stray(::fcntl(a.write.get(), F_DUPFD, 50));
  SpawnSpec spec =
      Shell("echo to-a >&" + std::to_string(low_b.get()) + "; echo to-b >&" +
            std::to_string(low_a.get()) + "; ls /proc/$$/fd >&" + std::to_string(low_a.get()));
  spec.path = "/bin/bash";  // takes descriptor numbers of two digits
  spec.fds = {{low_a.get(), low_b.get()}, {low_b.get(), low_a.get()}};
  Spawned spawned;
  ASSERT_FALSE(Spawn(spec, &spawned));
  low_a.Reset();
  low_b.Reset();
  stray.Reset();
  EXPECT_EQ(a.Drain(), "to-a\n");
  std::istringstream lines(b.Drain());
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "to-b");
  int open = 0;
  while (std::getline(lines, line)) ++open;
  EXPECT_LE(open, 3);  // the two, and what ls itself has
  Wait(spawned.pid);
}

TEST(Spawn, Failures_AreTypedAndLeaveNoZombie) {
  Spawned spawned;
  SpawnSpec spec = Shell("true");
  spec.path = "/nonexistent/program";
  auto error = Spawn(spec, &spawned);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error_number, ENOENT);
  EXPECT_STREQ(error->step, "exec");

  spec.path = "/etc/passwd";
  error = Spawn(spec, &spawned);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error_number, EACCES);
  EXPECT_STREQ(error->step, "exec");

  spec = Shell("true");
  spec.cwd = "/nonexistent";
  error = Spawn(spec, &spawned);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error_number, ENOENT);
  EXPECT_STREQ(error->step, "cwd");

  spec = Shell("true");
  spec.argv.emplace_back(4 << 20, 'x');
  error = Spawn(spec, &spawned);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error_number, E2BIG);

  spec = Shell("true");
  spec.fds = {{999, 1}};
  error = Spawn(spec, &spawned);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error_number, EBADF);
  EXPECT_STREQ(error->step, "fds");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Spawn, NoNewPrivilegesLimitsAndCwd_AreSet) {
  SpawnSpec spec = Shell("grep NoNewPrivs /proc/self/status; ulimit -n; pwd");
  spec.rlimits = {{RLIMIT_NOFILE, 77}};
  spec.cwd = "/usr/bin";
  EXPECT_EQ(Output(spec), "NoNewPrivs:\t1\n77\n/usr/bin\n");
}

TEST(Spawn, User_IsDroppedCompletely) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  SpawnSpec spec = Shell("grep -E '^(Uid|Gid|Groups)' /proc/self/status");
  spec.user = {4242, 4343};
  EXPECT_EQ(Output(spec),
            "Uid:\t4242\t4242\t4242\t4242\nGid:\t4343\t4343\t4343\t4343\nGroups:\t \n");
}

TEST(Spawn, CgroupFd_GetsTheChildWrittenIntoIt) {
  const std::string dir = TempDir();
  const std::string file = dir + "/procs";
  UniqueFd fd(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  SpawnSpec spec = Shell("true");
  spec.cgroup_procs_fd = fd.get();
  Output(spec);
  std::ifstream in(file);
  std::string text;
  in >> text;
  EXPECT_EQ(text, "0");
  spec.cgroup_procs_fd = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  Spawned spawned;
  const auto error = Spawn(spec, &spawned);
  ::close(spec.cgroup_procs_fd);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error_number, ENOSPC);
  EXPECT_STREQ(error->step, "cgroup");
}

TEST(ResolveProgram, SearchesPathInOrderAndSaysWhyNot) {
  const std::string dir = TempDir();
  std::ofstream(dir + "/tool") << "x";
  std::string path;
  EXPECT_EQ(ResolveProgram("tool", "/nonexistent:" + dir, "", &path), EACCES);
  EXPECT_EQ(ResolveProgram("no-such-tool", "/usr/bin:/bin", "", &path), ENOENT);
  EXPECT_EQ(ResolveProgram("", "/usr/bin", "", &path), ENOENT);
  ASSERT_EQ(::chmod((dir + "/tool").c_str(), 0755), 0);
  EXPECT_EQ(ResolveProgram("tool", "/nonexistent:" + dir, "", &path), 0);
  EXPECT_EQ(path, dir + "/tool");
  EXPECT_EQ(ResolveProgram("tool", "/nonexistent:", dir, &path), 0);
  EXPECT_EQ(path, dir + "/tool");
  EXPECT_EQ(ResolveProgram("./tool", "/usr/bin", dir, &path), 0);
  EXPECT_EQ(path, "./tool");
}

}  // namespace
}  // namespace sandbroker

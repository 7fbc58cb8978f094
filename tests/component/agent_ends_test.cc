// The agent over its link: how executions end, and how they fail to start.
#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/agent_process.h"
#include "tests/support/raw_link_client.h"

namespace sandbroker::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class AgentEnds : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(client_.Open(agent_.socket_path(), agent_.secret())); }
  agent::Start Shell(const std::string& script) {
    return MakeStart("e" + std::to_string(++count_), {"sh", "-c", script});
  }
  const StreamRecord& Run(const agent::Start& start) {
    return client_.Finish(client_.Start(start));
  }
  agent::Ended EndOf(const agent::Start& start) {
    const auto& record = Run(start);
    EXPECT_TRUE(record.ended) << (record.reset ? record.reset->message() : "no end came");
    return record.ended.value_or(agent::Ended());
  }
  // Starts it and waits until it has printed "up".
  uint32_t Up(const agent::Start& start) {
    const uint32_t stream = client_.Start(start);
    EXPECT_TRUE(client_.Until(
        [&] { return client_.record(stream).out.find("up\n") != std::string::npos; }));
    return stream;
  }
  AgentProcess agent_;
  RawLinkClient client_;
  int count_ = 0;
};

TEST_F(AgentEnds, T48_Signals_AreTypedAndNeverExitCodes) {
  EXPECT_EQ(EndOf(Shell("kill -9 $$")).signaled().number(), SIGKILL);
  EXPECT_EQ(EndOf(Shell("kill -TERM $$")).signaled().number(), SIGTERM);
  const agent::Ended segv = EndOf(Shell("ulimit -c 0; kill -SEGV $$"));
  EXPECT_EQ(segv.signaled().number(), SIGSEGV);
  EXPECT_FALSE(segv.signaled().core_dumped());
  EXPECT_EQ(EndOf(Shell("exit 137")).exited().code(), 137);
  EXPECT_EQ(EndOf(Shell("exit 0")).exited().code(), 0);
}

TEST_F(AgentEnds, Signal_ReachesTheWholeProcessGroup) {
  const uint32_t stream =
      Up(Shell("trap 'echo caught; exit 3' USR1; sh -c 'echo up; exec sleep 1000' & wait"));
  agent::Command command;
  command.mutable_signal()->set_number(SIGUSR1);
  client_.SendCommand(stream, command);
  const auto& record = client_.Finish(stream);
  EXPECT_EQ(record.ended->exited().code(), 3);
  EXPECT_EQ(record.out, "up\ncaught\n");
  EXPECT_FALSE(record.ended->output_open());  // the sleep was ended as well
}

TEST_F(AgentEnds, Timeout_TermEndsAProgramThatObeys) {
  agent::Start start = Shell("sleep 1000");
  start.set_timeout_ns(Duration(milliseconds(100)).count());
  start.set_kill_grace_ns(Duration(seconds(20)).count());
  const agent::Ended ended = EndOf(start);
  ASSERT_TRUE(ended.has_timed_out());
  EXPECT_EQ(ended.timed_out().last_signal(), SIGTERM);
  EXPECT_LT(Duration(ended.duration_ns()), seconds(10));
}

TEST_F(AgentEnds, Timeout_KillEndsAProgramThatDoesNot) {
  agent::Start start = Shell("trap '' TERM; while :; do sleep 0.05; done");
  start.set_timeout_ns(Duration(milliseconds(100)).count());
  start.set_kill_grace_ns(Duration(milliseconds(200)).count());
  const agent::Ended ended = EndOf(start);
  ASSERT_TRUE(ended.has_timed_out());
  EXPECT_EQ(ended.timed_out().last_signal(), SIGKILL);
  EXPECT_GE(Duration(ended.duration_ns()), milliseconds(300));
}

TEST_F(AgentEnds, Cancel_EndsThoseThatIgnoreTERMInGroupsOfTheirOwn) {
  const std::string file = agent_.dir() + "/pids";
  // A child in a process group of its own that ignores TERM, and a plain one.
  const uint32_t stream = Up(MakeStart(
      "c", {"bash", "-c",
            "set -m; (trap '' TERM; echo $BASHPID >> " + file +
                "; while :; do sleep 0.05; done) & set +m; sleep 1000 & echo $! >> " + file +
                "; until [ $(wc -l < " + file + ") = 2 ]; do sleep 0.01; done; echo up; wait"}));
  agent::Command command;
  command.mutable_cancel()->set_by("test");
  command.mutable_cancel()->set_kill_grace_ns(Duration(milliseconds(200)).count());
  client_.SendCommand(stream, command);
  const auto& record = client_.Finish(stream);
  ASSERT_TRUE(record.ended);
  EXPECT_EQ(record.ended->cancelled().by(), "test");
  std::ifstream in(file);
  pid_t pid;
  int seen = 0;
  while (in >> pid) {
    ++seen;
    EXPECT_FALSE(Runs(pid)) << pid;
  }
  EXPECT_EQ(seen, 2);
}

TEST_F(AgentEnds, LeaseExpired_IsItsOwnEnd) {
  const uint32_t stream = Up(Shell("echo up; sleep 1000"));
  agent::Command command;
  command.mutable_cancel()->set_lease_expired(true);
  client_.SendCommand(stream, command);
  EXPECT_TRUE(client_.Finish(stream).ended->has_lease_expired());
}

TEST_F(AgentEnds, T118_StartFailures_AreTyped) {
  const auto failed = [&](const agent::Start& start) {
    const auto& record = Run(start);
    EXPECT_TRUE(record.ready);
    EXPECT_EQ(record.ready->pid(), 0);
    EXPECT_TRUE(record.ended && record.ended->has_start_failed());
    return record.ended ? record.ended->start_failed() : agent::StartFailed();
  };
  agent::StartFailed failure = failed(MakeStart("no-such", {"no-such-program"}));
  EXPECT_EQ(failure.error_number(), ENOENT);
  EXPECT_EQ(failure.step(), "exec");
  EXPECT_EQ(failure.message(), "exec no-such-program: No such file or directory");
  EXPECT_EQ(failed(MakeStart("no-path", {"/no/such/path"})).error_number(), ENOENT);
  failure = failed(MakeStart("no-access", {"/etc/passwd"}));
  EXPECT_EQ(failure.error_number(), EACCES);
  EXPECT_EQ(failure.step(), "exec");
  failure = failed(MakeStart("big", {"echo", std::string(3 << 20, 'x')}));
  EXPECT_EQ(failure.error_number(), E2BIG);
  agent::Start start = Shell("true");
  start.set_cwd("/no/such/folder");
  failure = failed(start);
  EXPECT_EQ(failure.error_number(), ENOENT);
  EXPECT_EQ(failure.step(), "cwd");
  start = Shell("true");
  start.set_cwd("/etc/passwd");
  EXPECT_EQ(failed(start).error_number(), ENOTDIR);
  EXPECT_EQ(EndOf(Shell("true")).exited().code(), 0);
}

TEST_F(AgentEnds, T118_NewlinesAndHeredocs_ArePlainArguments) {
  EXPECT_EQ(Run(Shell("cat <<EOF\nline one\n$((1+1))\nEOF")).out, "line one\n2\n");
  EXPECT_EQ(Run(MakeStart("big", {"printf", "%s", std::string(100000, 'y')})).out.size(), 100000u);
}

TEST_F(AgentEnds, BackgroundChild_HoldsTheLogOnlyForItsBound) {
  agent::Start start = Shell("sleep 1000 & echo $!; exit 5");
  start.set_children_bound_ns(Duration(milliseconds(200)).count());
  const auto& record = Run(start);
  ASSERT_TRUE(record.ended);
  EXPECT_EQ(record.ended->exited().code(), 5);
  EXPECT_TRUE(record.ended->output_open());
  const pid_t child = std::stoi(record.out);
  EXPECT_EQ(::kill(child, 0), 0);  // not ours to end
}

TEST_F(AgentEnds, BackgroundChild_CanBeWaitedForOrLeftAlone) {
  agent::Start wait = Shell("(sleep 0.3; echo late) & exit 5");
  wait.set_children(agent::CHILDREN_WAIT);
  const auto& waited = Run(wait);
  EXPECT_EQ(waited.out, "late\n");
  EXPECT_FALSE(waited.ended->output_open());
  agent::Start detach = Shell("(sleep 1000) & echo $!");
  detach.set_children(agent::CHILDREN_DETACH);
  const auto& left = Run(detach);
  EXPECT_TRUE(left.ended->output_open());
  EXPECT_TRUE(Runs(std::stoi(left.out)));
}

TEST_F(AgentEnds, T02_LastBytesBeforeTheExit_AreNeverMissing) {
  for (int power = 0; power < 20; ++power) {
    for (const int delta : {-1, 0, 1}) {
      const int size = (1 << power) + delta;
      const auto& record = Run(Shell("head -c " + std::to_string(size) + " /dev/zero"));
      ASSERT_TRUE(record.ended);
      ASSERT_EQ(record.out.size(), static_cast<size_t>(size));
      ASSERT_EQ(record.ended->final_offset(), static_cast<uint64_t>(size));
    }
  }
}

TEST_F(AgentEnds, BadStarts_AreRefusedByField) {
  const auto refused = [&](const agent::Start& start) {
    const auto& record = Run(start);
    EXPECT_FALSE(record.ready);
    EXPECT_TRUE(record.reset);
    EXPECT_EQ(record.reset ? record.reset->code() : 0, 3u);
    return record.reset ? record.reset->reason() : "";
  };
  EXPECT_EQ(refused(MakeStart("bad id", {"true"})), "FIELD_INVALID");
  EXPECT_EQ(refused(MakeStart("none", {})), "FIELD_INVALID");
  EXPECT_EQ(refused(MakeStart("nul", {std::string("a\0b", 3)})), "FIELD_INVALID");
  agent::Start start = MakeStart("neg", {"true"});
  start.set_timeout_ns(-1);
  EXPECT_EQ(refused(start), "FIELD_INVALID");
  start = MakeStart("env", {"true"});
  start.add_env()->set_name("A=B");
  EXPECT_EQ(refused(start), "FIELD_INVALID");
  start = MakeStart("window", {"true"});
  start.set_window_bytes(9 << 20);
  EXPECT_EQ(refused(start), "FIELD_INVALID");
}

// 10,000 in the e2e tier; here 500 in parallel of 50.
TEST_F(AgentEnds, T58_ProgramsThatEndAtOnce_AllReportTheirEnd) {
  for (int round = 0; round < 10; ++round) {
    std::vector<uint32_t> streams;
    for (int i = 0; i < 50; ++i) {
      const std::string id = "t" + std::to_string(round * 50 + i);
      streams.push_back(
          client_.Start(i % 2 == 0 ? MakeStart(id, {"true"}) : MakeStart(id, {"echo", id})));
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      const auto& record = client_.Finish(streams[i]);
      ASSERT_TRUE(record.ready && record.ended);
      ASSERT_TRUE(record.ended->has_exited());
      ASSERT_EQ(record.ended->exited().code(), 0);
      if (i % 2 == 1) {
        ASSERT_EQ(record.out, "t" + std::to_string(round * 50 + i) + "\n");
      }
    }
  }
}

}  // namespace
}  // namespace sandbroker::test

// The agent over its link: whatever an execution has started is its own, and ends with it.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/agent_process.h"
#include "tests/support/raw_link_client.h"

namespace sandbroker::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Child, child in a session of its own, and a daemon that nobody waits for.
constexpr char kTree[] =
    "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & exit 0' &) ; echo up; ";

template <class Fn>
bool Within(Duration bound, Fn done) {
  const Time deadline = std::chrono::steady_clock::now() + bound;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

agent::Command CancelCommand(Duration grace = {}) {
  agent::Command command;
  command.mutable_cancel()->set_by("test");
  command.mutable_cancel()->set_kill_grace_ns(grace.count());
  return command;
}

class AgentTrees : public ::testing::Test {
 protected:
  explicit AgentTrees(const std::vector<std::string>& flags = {}) : agent_(flags) {}
  void SetUp() override {
    ASSERT_TRUE(client_.Open(agent_.socket_path(), agent_.secret()));
    agent::Start cat = MakeStart("neighbour", {"cat"});
    cat.set_stdin(true);
    cat.mutable_writer()->set_holder("test");
    cat.mutable_writer()->set_attempt(1);
    neighbour_ = client_.Start(cat);
    ASSERT_TRUE(client_.Until([&] { return client_.record(neighbour_).ready.has_value(); }));
  }
  // The neighbour answers as before, and beside it nothing is left.
  void TearDown() override {
    client_.SendInput(neighbour_, 0, "alive");
    EXPECT_TRUE(client_.Until([&] { return client_.record(neighbour_).out == "alive"; }));
    EXPECT_TRUE(OnlyTheNeighbourIsLeft());
  }
  bool OnlyTheNeighbourIsLeft() {
    return Within(seconds(20), [&] {
      return agent_.programs().size() == 1 && agent_.supervisors().size() == 1 &&
             agent_.zombies() == 0;
    });
  }
  agent::Start Shell(const std::string& script) {
    return MakeStart("e" + std::to_string(++count_), {"bash", "-c", script});
  }
  uint32_t Up(const agent::Start& start, size_t processes) {
    const uint32_t stream = client_.Start(start);
    EXPECT_TRUE(client_.Until(
        [&] { return client_.record(stream).out.find("up\n") != std::string::npos; }));
    EXPECT_TRUE(Within(seconds(20), [&] { return agent_.programs().size() >= 1 + processes; }));
    return stream;
  }
  agent::Ended EndOf(uint32_t stream) {
    const auto& record = client_.Finish(stream);
    EXPECT_TRUE(record.ended) << (record.reset ? record.reset->message() : "no end came");
    return record.ended.value_or(agent::Ended());
  }
  agent::Report Report() {
    agent::Control query;
    query.mutable_query()->set_sequence(++queries_);
    client_.SendControl(query);
    const auto answered = [&] {
      return !client_.controls().empty() &&
             client_.controls().back().report().sequence() == queries_;
    };
    EXPECT_TRUE(client_.Until(answered));
    return client_.controls().back().report();
  }
  bool ReportsLeftovers(uint32_t count) {
    return Within(seconds(20), [&] { return Report().leftovers() == count; });
  }
  agent::Attach AttachAndCancel(const std::string& id, Duration grace = {}) {
    agent::Attach attach;
    attach.set_execution_id(id);
    *attach.mutable_cancel() = CancelCommand(grace).cancel();
    return attach;
  }
  AgentProcess agent_;
  RawLinkClient client_;
  uint32_t neighbour_ = 0;
  uint64_t queries_ = 0;
  int count_ = 0;
};

TEST_F(AgentTrees, T54_Cancel_LeavesNothingWhereverItHasGone) {
  for (const Duration grace : {Duration(0), Duration(milliseconds(200)), Duration(seconds(60))}) {
    const uint32_t stream = Up(Shell(std::string(kTree) + "wait"), 4);
    client_.SendCommand(stream, CancelCommand(grace));
    const agent::Ended ended = EndOf(stream);
    EXPECT_EQ(ended.cancelled().by(), "test");
    EXPECT_FALSE(ended.output_open());
    // Not only soon: the end is told when nothing is left.
    EXPECT_EQ(agent_.programs().size(), 1u);
  }
}

TEST_F(AgentTrees, T54_Timeout_LeavesNothingWhereverItHasGone) {
  agent::Start start = Shell(std::string(kTree) + "trap '' TERM; while :; do sleep 0.05; done");
  start.set_timeout_ns(Duration(milliseconds(300)).count());
  start.set_kill_grace_ns(Duration(milliseconds(100)).count());
  EXPECT_TRUE(EndOf(client_.Start(start)).has_timed_out());
  EXPECT_EQ(agent_.programs().size(), 1u);
}

TEST_F(AgentTrees, ProgramThatStopsItself_IsEndedByTimeoutAndHearsTheTERM) {
  agent::Start start = Shell("trap 'echo tidy; exit 0' TERM; echo up; kill -STOP $$; echo woken");
  start.set_timeout_ns(Duration(milliseconds(200)).count());
  start.set_kill_grace_ns(Duration(seconds(60)).count());
  const uint32_t stream = client_.Start(start);
  EXPECT_EQ(EndOf(stream).timed_out().last_signal(), SIGTERM);
  EXPECT_NE(client_.record(stream).out.find("tidy\n"), std::string::npos);
}

// Each process begets its successor and ends, 50 lines at once; nobody can be caught twice.
TEST_F(AgentTrees, T54_FiftyRespawningForkers_AreAllEnded) {
  const std::string hop = "hop() { while :; do (sleep 0.01; hop) & exit 0; done; }; ";
  const uint32_t stream = Up(Shell(hop + "for i in $(seq 50); do setsid bash -c '" + hop +
                                   " hop' & done; echo up; wait;"
                                   " sleep 1000"),
                             40);
  client_.SendCommand(stream, CancelCommand());
  EXPECT_TRUE(EndOf(stream).has_cancelled());
  EXPECT_EQ(agent_.programs().size(), 1u);
}

TEST_F(AgentTrees, KilledSupervisor_EndsItsExecutionAndNoOther) {
  const uint32_t stream =
      client_.Start(Shell(std::string(kTree) + "kill -KILL $PPID; exec sleep 1000"));
  const agent::Ended ended = EndOf(stream);
  EXPECT_EQ(ended.signaled().number(), SIGKILL);
  ASSERT_EQ(client_.record(stream).warnings.size(), 1u);
  EXPECT_EQ(client_.record(stream).warnings[0].reason(), "SUPERVISOR_KILLED");
  EXPECT_EQ(agent_.programs().size(), 1u);
}

TEST_F(AgentTrees, ProgramThatEndsWhenItsSupervisorIsKilled_EndsAsItDid) {
  for (int i = 0; i < 20; ++i) {
    const agent::Ended ended = EndOf(client_.Start(Shell("kill -KILL $PPID; exit 5")));
    // Whichever was faster, as the kernel tells it.
    EXPECT_TRUE(ended.has_exited() ? ended.exited().code() == 5
                                   : ended.signaled().number() == SIGKILL);
  }
}

TEST_F(AgentTrees, StoppedSupervisor_IsWokenAndTheEndComes) {
  EXPECT_EQ(EndOf(client_.Start(Shell("kill -STOP $PPID; exit 3"))).exited().code(), 3);
  // Who does nothing else loses it.
  const uint32_t stream = client_.Start(Shell("while kill -STOP $PPID; do :; done; sleep 1000"));
  EXPECT_EQ(EndOf(stream).signaled().number(), SIGKILL);
  EXPECT_EQ(client_.record(stream).warnings.size(), 1u);
}

TEST_F(AgentTrees, Daemon_OutlivesItsProgramAndEndsByALaterCancel) {
  agent::Start start = Shell("setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit 6");
  EXPECT_EQ(EndOf(client_.Start(start)).exited().code(), 6);
  ASSERT_TRUE(ReportsLeftovers(1));
  const agent::Report report = Report();
  EXPECT_EQ(report.running(), 1u);  // the neighbour alone
  ASSERT_EQ(report.leftover_ids_size(), 1);
  EXPECT_EQ(report.leftover_ids(0), start.execution_id());
  EXPECT_EQ(agent_.programs().size(), 2u);
  const uint32_t stream = client_.Attach(AttachAndCancel(start.execution_id()));
  EXPECT_EQ(EndOf(stream).exited().code(), 6);
  EXPECT_TRUE(ReportsLeftovers(0));
}

TEST_F(AgentTrees, ChildOfTheGroup_HearsTheTERMOfALaterCancel) {
  agent::Start start = Shell("(trap 'exit 0' TERM; while :; do sleep 0.02; done) & exit 0");
  start.set_children(agent::CHILDREN_DETACH);
  EXPECT_TRUE(EndOf(client_.Start(start)).output_open());
  ASSERT_TRUE(ReportsLeftovers(1));
  client_.Attach(AttachAndCancel(start.execution_id(), seconds(3600)));
  EXPECT_TRUE(ReportsLeftovers(0));
}

TEST_F(AgentTrees, ChildrenPolicy_WaitsForHoldersOfPipesAndForNobodyElse) {
  agent::Start start =
      Shell("setsid sleep 1000 </dev/null >/dev/null 2>&1 & (sleep 0.2; echo late) &");
  start.set_children(agent::CHILDREN_WAIT);
  const uint32_t stream = client_.Start(start);
  const agent::Ended ended = EndOf(stream);
  EXPECT_EQ(ended.exited().code(), 0);
  EXPECT_FALSE(ended.output_open());
  EXPECT_EQ(client_.record(stream).out, "late\n");
  ASSERT_TRUE(ReportsLeftovers(1));
  client_.Attach(AttachAndCancel(start.execution_id()));
}

// A daemon takes its whole tree along, also what it starts later.
TEST_F(AgentTrees, WhatADaemonStarts_StillBelongsToTheExecution) {
  agent::Start start = Shell(
      "setsid sh -c 'sleep 0.1; for i in 1 2 3; do setsid sleep 1000 & done; exit 0' "
      "</dev/null >/dev/null 2>&1 & exit 0");
  EXPECT_TRUE(EndOf(client_.Start(start)).has_exited());
  ASSERT_TRUE(Within(seconds(20), [&] { return agent_.programs().size() == 4; }));
  client_.Attach(AttachAndCancel(start.execution_id()));
}

// What the cancel meets decides the end; there is one, and nothing of it is left.
TEST_F(AgentTrees, CancelledButItAlsoSucceeded_HasOneTrueEnd) {
  int exited = 0;
  for (int i = 0; i < 60; ++i) {
    // With the start itself, and a little later each time.
    const uint32_t stream = client_.Start(Shell("sleep 1000 & exit 0"));
    ::poll(nullptr, 0, i * i / 36);  // up to 0.1 s
    client_.SendCommand(stream, CancelCommand(milliseconds(i % 2)));
    const agent::Ended ended = EndOf(stream);
    exited += ended.has_exited() ? 1 : 0;
    EXPECT_TRUE(ended.has_exited() ? ended.exited().code() == 0 : ended.has_cancelled());
    EXPECT_FALSE(ended.output_open());
    EXPECT_EQ(agent_.programs().size(), 1u);
  }
  EXPECT_GT(exited, 0);
  // Its own exit within the grace does not make it a success.
  const uint32_t stream = Up(Shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done"), 1);
  client_.SendCommand(stream, CancelCommand(seconds(60)));
  EXPECT_TRUE(EndOf(stream).has_cancelled());
}

TEST_F(AgentTrees, EndOfTheAgent_TakesDaemonsOfEndedExecutionsAlong) {
  EXPECT_TRUE(EndOf(client_.Start(Shell("setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit 0")))
                  .has_exited());
  ASSERT_TRUE(ReportsLeftovers(1));
  AgentProcess other;
  RawLinkClient client;
  ASSERT_TRUE(client.Open(other.socket_path(), other.secret()));
  agent::Start start = MakeStart("d", {"sh", "-c", kTree});
  start.set_children(agent::CHILDREN_DETACH);
  const uint32_t stream = client.Start(start);
  ASSERT_TRUE(client.Finish(stream, seconds(20)).ended);
  ASSERT_TRUE(Within(seconds(20), [&] { return other.programs().size() == 3; }));
  const std::vector<pid_t> pids = other.programs();
  agent::Control beat;
  beat.mutable_heartbeat()->set_backstop_ns(1);
  client.SendControl(beat);
  EXPECT_EQ(other.WaitEnd(), 0);
  for (const pid_t pid : pids) EXPECT_FALSE(Runs(pid)) << pid;
  client_.Attach(AttachAndCancel("e1"));
}

class AgentTreesOfTwo : public AgentTrees {
 protected:
  AgentTreesOfTwo() : AgentTrees({"--max-leftovers", "2"}) {}
};

TEST_F(AgentTreesOfTwo, Leftovers_AreBoundedAndNoneIsEndedForIt) {
  const std::string daemon = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit 0";
  for (const uint32_t left : {1, 2}) {
    EXPECT_TRUE(EndOf(client_.Start(Shell(daemon))).has_exited());
    ASSERT_TRUE(ReportsLeftovers(left));
  }
  const auto& refused = client_.Finish(client_.Start(Shell("true")));
  ASSERT_TRUE(refused.reset);
  EXPECT_EQ(refused.reset->reason(), "CAPACITY");
  EXPECT_NE(refused.reset->message().find("max_leftovers = 2"), std::string::npos);
  client_.Attach(AttachAndCancel("e1"));
  ASSERT_TRUE(ReportsLeftovers(1));
  EXPECT_TRUE(EndOf(client_.Start(Shell("true"))).has_exited());
  client_.Attach(AttachAndCancel("e2"));
}

// Few ends are remembered, so that what is remembered does not look like a leak.
class AgentTreesWithShortMemory : public AgentTrees {
 protected:
  AgentTreesWithShortMemory() : AgentTrees({"--max-executions", "128"}) {}
};

// 5,000 in full length, here 1,000.
TEST_F(AgentTreesWithShortMemory, ThousandsOfExecutions_LeaveNoFdZombieThreadOrMemory) {
  const char* full = std::getenv("SANDBROKER_LONG");
  const int count = full != nullptr && std::strcmp(full, "1") == 0 ? 5000 : 1000;
  const auto run = [&](int i) {
    agent::Start start = Shell(i % 5 == 0 ? "setsid sleep 1000 & exit 0" : "exit 0");
    start.set_stdin(i % 2 == 0);
    start.set_throwaway_id(true);
    start.set_children(agent::CHILDREN_WAIT);
    const uint32_t stream = client_.Start(start);
    if (i % 5 == 0) client_.SendCommand(stream, CancelCommand());
    ASSERT_FALSE(EndOf(stream).output_open());
  };
  // Its buffers and pools have their size after these.
  for (int i = 0; i < 200; ++i) run(i);
  ASSERT_TRUE(OnlyTheNeighbourIsLeft());
  const size_t fds = agent_.open_fds(), bytes = agent_.resident_bytes();
  for (int i = 0; i < count; ++i) run(i);
  ASSERT_TRUE(OnlyTheNeighbourIsLeft());
  EXPECT_EQ(agent_.open_fds(), fds);
  EXPECT_LT(agent_.resident_bytes(), bytes + kMemoryFactor * (4u << 20));
  EXPECT_EQ(agent_.threads(), 1u);
}

}  // namespace
}  // namespace sandbroker::test

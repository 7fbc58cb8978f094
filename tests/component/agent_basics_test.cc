// The agent over its link: the handshake, and the ordinary life of an execution.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/agent_process.h"
#include "tests/support/raw_link_client.h"

namespace sandbroker::test {
namespace {

class AgentBasics : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(client_.Open(agent_.socket_path(), agent_.secret())); }
  agent::Start Shell(const std::string& id, const std::string& script) {
    return MakeStart(id, {"sh", "-c", script});
  }
  const StreamRecord& Run(const agent::Start& start) {
    return client_.Finish(client_.Start(start));
  }
  AgentProcess agent_{{}, {"PATH=/usr/bin:/bin", "SHARED=base", "HOME=/nowhere"}};
  RawLinkClient client_;
};

TEST_F(AgentBasics, Hello_NamesVersionsBootIdAndLimits) {
  EXPECT_EQ(client_.hello().version_min(), 1u);
  EXPECT_EQ(client_.hello().version_max(), 1u);
  EXPECT_EQ(client_.hello().boot_id().size(), 32u);
  EXPECT_EQ(client_.hello().limits().max_executions(), 4096u);
  EXPECT_EQ(client_.hello().limits().output_budget_bytes(), 256u << 20);
}

TEST_F(AgentBasics, T15_Outputs_StayApartAndExitCodeArrives) {
  const auto& record = Run(Shell("e", "echo out; echo err >&2; echo out2; exit 7"));
  ASSERT_TRUE(record.ready);
  EXPECT_GT(record.ready->pid(), 0);
  EXPECT_EQ(record.ready->boot_id(), client_.hello().boot_id());
  ASSERT_TRUE(record.ended) << (record.reset ? record.reset->message() : "nothing came");
  EXPECT_TRUE(record.ended->has_exited());
  EXPECT_EQ(record.ended->exited().code(), 7);
  EXPECT_EQ(record.out, "out\nout2\n");
  EXPECT_EQ(record.err, "err\n");
  EXPECT_EQ(record.ended->final_offset(), record.bytes.size());
  EXPECT_TRUE(record.ended->output_complete());
  EXPECT_FALSE(record.ended->output_open());
  EXPECT_GT(record.ended->duration_ns(), 0);
  EXPECT_TRUE(record.offsets_fit);
}

TEST_F(AgentBasics, T11_Bytes_ArriveExactly) {
  EXPECT_EQ(Run(Shell("e", "printf 'a\\r\\n\\n\\nb'")).out, "a\r\n\n\nb");
}

TEST_F(AgentBasics, Argv_IsNeverSeenByAShell) {
  const auto& record = Run(MakeStart("e", {"printf", "%s|", "$HOME `id` \"'", "", "a\nb"}));
  EXPECT_EQ(record.out, "$HOME `id` \"'||a\nb|");
}

TEST_F(AgentBasics, Environment_OwnBeatsBoundBeatsBase) {
  agent::Control bind;
  bind.mutable_bind()->set_sequence(5);
  auto* bound = bind.mutable_bind()->add_env();
  bound->set_name("SHARED");
  bound->set_value("bound");
  bound = bind.mutable_bind()->add_env();
  bound->set_name("LATE");
  bound->set_value("1");
  client_.SendControl(bind);
  ASSERT_TRUE(client_.Until([&] { return !client_.controls().empty(); }));
  EXPECT_EQ(client_.controls().front().bound().sequence(), 5u);
  EXPECT_EQ(Run(Shell("e1", "echo $SHARED $LATE $HOME")).out, "bound 1 /nowhere\n");
  agent::Start start = Shell("e2", "echo $SHARED $LATE");
  auto* own = start.add_env();
  own->set_name("SHARED");
  own->set_value("own");
  EXPECT_EQ(Run(start).out, "own 1\n");
}

TEST_F(AgentBasics, Cwd_IsTheWorkspaceUnlessNamed) {
  agent::Start start = MakeStart("e", {"pwd"});
  start.clear_cwd();
  EXPECT_EQ(Run(start).out, agent_.dir() + "\n");
  EXPECT_EQ(Run(MakeStart("f", {"pwd"})).out, "/tmp\n");
}

TEST_F(AgentBasics, Child_SeesNothingOfTheAgent) {
  // Asked one by one: whatever lists a folder has one more open.
  const auto& fds = Run(
      Shell("fds",
            "for n in 0 1 2 3 4 5 6 7 8 9 10 11 12; do [ -e /proc/$$/fd/$n ] && echo $n; done; :"));
  EXPECT_EQ(fds.out, "0\n1\n2\n");
  const std::string environ = "/proc/" + std::to_string(agent_.pid()) + "/environ";
  EXPECT_EQ(Run(Shell("env", "tr -d '\\0' < " + environ + " | wc -c")).out, "0\n");
  const auto& status =
      Run(MakeStart("status", {"grep", "-E", "NoNewPrivs|SigBlk|SigIgn", "/proc/self/status"}));
  EXPECT_EQ(status.out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nNoNewPrivs:\t1\n");
}

TEST_F(AgentBasics, Query_SaysWhatRuns) {
  const uint32_t stream = client_.Start(Shell("sleeper", "echo up; exec sleep 1000"));
  ASSERT_TRUE(client_.Until([&] { return client_.record(stream).out == "up\n"; }));
  agent::Control query;
  query.mutable_query()->set_sequence(9);
  client_.SendControl(query);
  ASSERT_TRUE(client_.Until([&] { return !client_.controls().empty(); }));
  const auto& report = client_.controls().front().report();
  EXPECT_EQ(report.sequence(), 9u);
  EXPECT_EQ(report.running(), 1u);
  EXPECT_EQ(report.attached(), 1u);
  EXPECT_GE(report.idle_ns(), 0);
  ASSERT_EQ(report.running_ids_size(), 1);
  EXPECT_EQ(report.running_ids(0), "sleeper");
}

TEST_F(AgentBasics, SeveralLinks_WorkBesideEachOther) {
  RawLinkClient second;
  ASSERT_TRUE(second.Open(agent_.socket_path(), agent_.secret()));
  const uint32_t one = client_.Start(Shell("one", "sleep 0.1; echo 1"));
  const uint32_t two = second.Start(Shell("two", "echo 2"));
  EXPECT_EQ(second.Finish(two).out, "2\n");
  EXPECT_EQ(client_.Finish(one).out, "1\n");
}

TEST_F(AgentBasics, Heartbeats_ComeAndAreAnswered) {
  RawLinkClient quick;
  ASSERT_TRUE(quick.Connect(agent_.socket_path()) && quick.Upgrade());
  ASSERT_TRUE(quick.Handshake(agent_.secret(), 1, std::chrono::milliseconds(100)));
  ASSERT_TRUE(quick.Until([&] { return !quick.controls().empty(); }));
  EXPECT_TRUE(quick.controls().front().has_heartbeat());
  agent::Control beat;
  beat.mutable_heartbeat()->set_sequence(77);
  beat.mutable_heartbeat()->set_reply_wanted(true);
  quick.SendControl(beat);
  EXPECT_TRUE(quick.Until([&] { return quick.controls().back().heartbeat().sequence() == 77; }));
  // Silent from here on.
  EXPECT_TRUE(quick.WaitClosed());
  EXPECT_TRUE(agent_.alive());
}

TEST_F(AgentBasics, Backstop_EndsTheAgentAndItsPrograms) {
  const uint32_t stream = client_.Start(Shell("e", "echo $$; exec sleep 1000"));
  ASSERT_TRUE(client_.Until([&] { return !client_.record(stream).out.empty(); }));
  const pid_t program = std::stoi(client_.record(stream).out);
  agent::Control beat;
  beat.mutable_heartbeat()->set_backstop_ns(Duration(std::chrono::milliseconds(100)).count());
  client_.SendControl(beat);
  EXPECT_EQ(agent_.WaitEnd(), 0);
  EXPECT_FALSE(Runs(program));
}

TEST_F(AgentBasics, TerminationFromInside_IsIgnored) {
  Run(Shell("e", "kill -TERM " + std::to_string(agent_.pid()) + "; kill -INT " +
                     std::to_string(agent_.pid())));
  EXPECT_EQ(Run(Shell("f", "echo alive")).out, "alive\n");
}

TEST(AgentHandshake, WrongSecret_IsRefused) {
  AgentProcess agent;
  RawLinkClient client;
  ASSERT_TRUE(client.Connect(agent.socket_path()) && client.Upgrade());
  EXPECT_FALSE(client.Handshake(std::string(32, 'x')));
  ASSERT_TRUE(client.link_reset());
  EXPECT_EQ(client.link_reset()->code(), 16u);
  EXPECT_TRUE(client.WaitClosed());
  EXPECT_TRUE(agent.alive());
}

TEST(AgentHandshake, VersionsThatDoNotOverlap_AreBothNamed) {
  AgentProcess agent;
  RawLinkClient client;
  ASSERT_TRUE(client.Connect(agent.socket_path()) && client.Upgrade());
  EXPECT_FALSE(client.Handshake(agent.secret(), 7));
  ASSERT_TRUE(client.link_reset());
  EXPECT_EQ(client.link_reset()->message(),
            "link versions do not overlap: the agent speaks 1 to 1, the broker 7 to 7");
  EXPECT_TRUE(client.WaitClosed());
}

TEST(AgentHandshake, HalfDone_IsClosedInTimeAndStrangersAreFew) {
  AgentProcess agent;
  std::vector<std::unique_ptr<RawLinkClient>> strangers;
  for (int i = 0; i < 16; ++i) {
    strangers.push_back(std::make_unique<RawLinkClient>());
    ASSERT_TRUE(strangers.back()->Connect(agent.socket_path()));
    if (i % 2 == 0) {
      ASSERT_TRUE(strangers.back()->Upgrade());
    }
  }
  RawLinkClient crowded;
  ASSERT_TRUE(crowded.Connect(agent.socket_path()));
  EXPECT_FALSE(crowded.Upgrade());
  for (auto& stranger : strangers) EXPECT_TRUE(stranger->WaitClosed());
  EXPECT_EQ(strangers[0]->link_reset()->reason(), "UNAUTHENTICATED");
  RawLinkClient client;
  EXPECT_TRUE(client.Open(agent.socket_path(), agent.secret()));
}

TEST(AgentHandshake, StreamBeforeTheProof_IsRefused) {
  AgentProcess agent;
  RawLinkClient client;
  ASSERT_TRUE(client.Connect(agent.socket_path()) && client.Upgrade());
  client.Start(MakeStart("e", {"true"}));
  ASSERT_TRUE(client.Until([&] { return client.link_reset().has_value(); }));
  EXPECT_EQ(client.link_reset()->reason(), "UNAUTHENTICATED");
  EXPECT_TRUE(client.WaitClosed());
}

TEST(AgentHandshake, OtherSubprotocol_IsNotUpgraded) {
  AgentProcess agent;
  RawLinkClient other, none;
  ASSERT_TRUE(other.Connect(agent.socket_path()) && none.Connect(agent.socket_path()));
  EXPECT_FALSE(other.Upgrade("sandbroker.link.2"));
  EXPECT_FALSE(none.Upgrade(""));
}

}  // namespace
}  // namespace sandbroker::test

// The agent over its link: start once, one reader and one writer at a time, and nothing lost when
// links come and go.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "lib/base/crypto.h"
#include "tests/support/agent_process.h"
#include "tests/support/raw_link_client.h"

namespace sandbroker::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

agent::Start Shell(const std::string& id, const std::string& script) {
  return MakeStart(id, {"sh", "-c", script});
}

agent::Start Cat(const std::string& id) {
  agent::Start start = MakeStart(id, {"cat"});
  start.set_stdin(true);
  start.mutable_writer()->set_holder("writer");
  start.mutable_writer()->set_attempt(1);
  return start;
}

agent::Attach AttachTo(const std::string& id, const std::string& holder, uint64_t attempt,
                       uint64_t offset) {
  agent::Attach attach;
  attach.set_execution_id(id);
  attach.mutable_reader()->set_holder(holder);
  attach.mutable_reader()->set_attempt(attempt);
  attach.mutable_reader()->set_offset(offset);
  return attach;
}

class AgentAttach : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(client_.Open(agent_.socket_path(), agent_.secret())); }
  const StreamRecord& Run(const agent::Start& start) {
    return client_.Finish(client_.Start(start));
  }
  bool WaitReady(RawLinkClient& client, uint32_t stream) {
    return client.Until(
        [&] { return client.record(stream).ready || client.record(stream).over(); });
  }
  void CloseInput(RawLinkClient& client, uint32_t stream, uint64_t offset) {
    agent::Command command;
    command.mutable_close_input()->set_offset(offset);
    client.SendCommand(stream, command);
  }
  AgentProcess agent_;
  RawLinkClient client_;
};

TEST_F(AgentAttach, RepeatedStart_AttachesAndRunsOnce) {
  const std::string file = agent_.dir() + "/runs";
  agent::Start start = Shell("once", "echo x >> " + file + "; echo done");
  EXPECT_FALSE(Run(start).ready->repeated_start());
  start.mutable_reader()->set_attempt(2);
  const auto& again = Run(start);
  EXPECT_TRUE(again.ready->repeated_start());
  EXPECT_EQ(again.ready->state(), agent::STATE_ENDED);
  EXPECT_EQ(again.out, "done\n");
  EXPECT_EQ(again.ended->exited().code(), 0);
  EXPECT_EQ(std::filesystem::file_size(file), 2u);
}

TEST_F(AgentAttach, OtherSpec_IsRefused) {
  Run(Shell("id", "true"));
  const auto& record = Run(Shell("id", "false"));
  ASSERT_TRUE(record.reset);
  EXPECT_EQ(record.reset->reason(), "EXECUTION_ID_REUSED");
}

TEST_F(AgentAttach, RefusedAsReader_LeavesTheOthersWritingAlone) {
  agent::Start start = Cat("cat");
  const uint32_t stream = client_.Start(start);
  ASSERT_TRUE(WaitReady(client_, stream));
  agent::Attach attach = AttachTo("cat", "stranger", 1, 0);  // no takeover: the output is held
  attach.mutable_writer()->set_holder("stranger");
  attach.mutable_writer()->set_attempt(1);
  const auto& refused = client_.Finish(client_.Attach(attach));
  ASSERT_TRUE(refused.reset);
  EXPECT_EQ(refused.reset->reason(), "HELD_BY_OTHER");
  client_.SendInput(stream, 0, "still mine\n");
  CloseInput(client_, stream, 11);
  EXPECT_EQ(client_.Finish(stream).out, "still mine\n");
}

TEST_F(AgentAttach, OtherBootId_IsRefused) {
  agent::Start start = Shell("id", "true");
  start.set_boot_id("somebody-else");
  EXPECT_EQ(Run(start).reset->reason(), "INCARNATION_CHANGED");
  agent::Attach attach = AttachTo("nobody", "r", 1, 0);
  EXPECT_EQ(client_.Finish(client_.Attach(attach)).reset->reason(), "EXECUTION_NOT_FOUND");
}

TEST(AgentTombstone, DroppedExecution_IsNeverRunAgain) {
  AgentProcess agent({"--max-executions", "1"});
  RawLinkClient client;
  ASSERT_TRUE(client.Open(agent.socket_path(), agent.secret()));
  const agent::Start first = Shell("first", "true");
  ASSERT_TRUE(client.Finish(client.Start(first)).ended);
  // The one place is free once the supervisor of the first has gone, a moment after its end.
  const auto second = [&] { return client.Finish(client.Start(Shell("second", "true"))).ended; };
  int refused = 0;
  while (!second()) ASSERT_LT(++refused, 10000);
  const auto& again = client.Finish(client.Start(first));
  ASSERT_TRUE(again.reset);
  EXPECT_EQ(again.reset->reason(), "EXECUTION_EXPIRED");
  EXPECT_EQ(again.reset->code(), 9u);
}

TEST(AgentCapacity, FullOfRunningOnes_IsRefusedByType) {
  AgentProcess agent({"--max-executions", "1"});
  RawLinkClient client;
  ASSERT_TRUE(client.Open(agent.socket_path(), agent.secret()));
  client.Start(Shell("first", "sleep 1000"));
  const auto& second = client.Finish(client.Start(Shell("second", "true")));
  EXPECT_EQ(second.reset->reason(), "CAPACITY");
  EXPECT_EQ(second.reset->code(), 8u);
  AgentProcess small({"--output-budget", "2000000"});
  RawLinkClient other;
  ASSERT_TRUE(other.Open(small.socket_path(), small.secret()));
  other.Start(Shell("first", "sleep 1000"));
  EXPECT_EQ(other.Finish(other.Start(Shell("second", "true"))).reset->reason(), "CAPACITY");
}

TEST_F(AgentAttach, DroppedLink_LosesNothing) {
  const uint32_t stream = client_.Start(Shell("e", "seq 1 200000; echo done >&2; exit 4"), 32768);
  ASSERT_TRUE(client_.Until([&] { return client_.record(stream).bytes.size() > 100000; }));
  std::string all = client_.record(stream).bytes;
  client_.Close();
  // Cut it a few more times on the way.
  for (uint64_t attempt = 2; attempt < 6; ++attempt) {
    RawLinkClient cut;
    ASSERT_TRUE(cut.Open(agent_.socket_path(), agent_.secret()));
    const uint32_t again = cut.Attach(AttachTo("e", "reader", attempt, all.size()), 32768);
    ASSERT_TRUE(cut.Until([&] { return cut.record(again).bytes.size() > 50000; }));
    ASSERT_TRUE(cut.record(again).offsets_fit);
    all += cut.record(again).bytes;
    cut.Close();
  }
  RawLinkClient last;
  ASSERT_TRUE(last.Open(agent_.socket_path(), agent_.secret()));
  const auto& rest = last.Finish(last.Attach(AttachTo("e", "reader", 6, all.size())));
  ASSERT_TRUE(rest.ended);
  EXPECT_EQ(rest.ended->exited().code(), 4);
  EXPECT_TRUE(rest.ended->output_complete());
  all += rest.bytes;
  std::string expected;
  for (int i = 1; i <= 200000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(Sha256(all.substr(0, expected.size())), Sha256(expected));
  EXPECT_EQ(all.size(), expected.size() + 5);
}

TEST_F(AgentAttach, ProgramWhoseReaderIsGone_RunsToItsEnd) {
  const uint32_t stream = client_.Start(Shell("e", "echo up; sleep 0.1; echo more; exit 2"));
  ASSERT_TRUE(client_.Until([&] { return !client_.record(stream).out.empty(); }));
  client_.Close();
  RawLinkClient again;
  ASSERT_TRUE(again.Open(agent_.socket_path(), agent_.secret()));
  const auto& record = again.Finish(again.Attach(AttachTo("e", "reader", 2, 0)));
  EXPECT_EQ(record.out, "up\nmore\n");
  EXPECT_EQ(record.ended->exited().code(), 2);
}

TEST_F(AgentAttach, T37_NobodyReads_ProgramIsNotStoppedByAPipe) {
  agent::Start start = Shell("e", "head -c 10000000 /dev/zero; exit 3");
  start.clear_reader();
  const auto& record = Run(start);
  ASSERT_TRUE(record.ended);
  EXPECT_EQ(record.ended->exited().code(), 3);
  EXPECT_EQ(record.ended->final_offset(), 10000000u);
  const auto& read = client_.Finish(client_.Attach(AttachTo("e", "r", 1, 0)));
  EXPECT_EQ(read.out.size(), 10000000u);
}

TEST_F(AgentAttach, StalledReader_StopsTheProgramWithinTheLogAndCostsBoundedMemory) {
  const size_t before = agent_.resident_bytes();
  const uint32_t stalled = client_.Start(MakeStart("stalled", {"cat", "/dev/zero"}), 0);
  ASSERT_TRUE(WaitReady(client_, stalled));
  RawLinkClient other;
  ASSERT_TRUE(other.Open(agent_.socket_path(), agent_.secret()));
  other.keep_output = false;
  const auto& busy =
      other.Finish(other.Start(Shell("busy", "head -c 200000000 /dev/zero")), seconds(60));
  EXPECT_TRUE(busy.ended);
  EXPECT_EQ(busy.next_offset, 200000000u);
  EXPECT_LT(agent_.resident_bytes() - before, 32u << 20);
  EXPECT_EQ(client_.record(stalled).data_frames, 0u);
}

TEST_F(AgentAttach, FreeLog_EvictsAndAnnouncesTheGap) {
  agent::Start start = Shell("e", "head -c 3000000 /dev/zero; exit 3");
  start.set_log_bytes(1 << 20);
  start.set_window_bytes(64 * 1024);
  const uint32_t stream = client_.Start(start, 0);
  ASSERT_TRUE(WaitReady(client_, stream));
  agent::Command detach;
  detach.mutable_detach();
  client_.SendCommand(stream, detach);
  agent::Attach watch;
  watch.set_execution_id("e");
  ASSERT_TRUE(client_.Finish(client_.Attach(watch)).ended);  // no reader: it was never stopped
  const auto& late = client_.Finish(client_.Attach(AttachTo("e", "reader", 2, 1000)));
  ASSERT_EQ(late.gaps.size(), 1u);
  EXPECT_EQ(late.gaps[0].from(), 1000u);
  EXPECT_GT(late.gaps[0].to(), 1900000u);
  EXPECT_TRUE(late.offsets_fit);
  EXPECT_EQ(late.next_offset, 3000000u);
  EXPECT_FALSE(late.ended->output_complete());
  EXPECT_EQ(late.ended->exited().code(), 3);
}

TEST_F(AgentAttach, SecondReader_NeedsTakeoverAndTheFirstIsTold) {
  const uint32_t first = client_.Start(Shell("e", "echo up; sleep 1000"));
  ASSERT_TRUE(client_.Until([&] { return !client_.record(first).out.empty(); }));
  agent::Attach attach = AttachTo("e", "other", 1, 0);
  EXPECT_EQ(client_.Finish(client_.Attach(attach)).reset->reason(), "HELD_BY_OTHER");
  EXPECT_EQ(client_.Finish(client_.Attach(AttachTo("e", "reader", 1, 0))).reset->reason(),
            "ATTEMPT_STALE");
  EXPECT_EQ(client_.Finish(client_.Attach(AttachTo("e", "reader", 2, 99))).reset->reason(),
            "OFFSET_BEYOND_END");
  attach.mutable_reader()->set_takeover(true);
  const uint32_t taker = client_.Attach(attach);
  ASSERT_TRUE(client_.Until([&] { return client_.record(taker).out == "up\n"; }));
  EXPECT_EQ(client_.Finish(first).reset->reason(), "TAKEN_OVER");
  EXPECT_EQ(client_.Finish(first).reset->code(), 10u);
  EXPECT_EQ(client_.record(taker).ready->live_from(), 3u);
}

TEST_F(AgentAttach, T153_FinishedLog_IsReadAgainAndAgain) {
  Run(Shell("e", "echo out; exit 9"));
  for (uint64_t attempt = 2; attempt < 12; ++attempt) {
    const auto& record = client_.Finish(client_.Attach(AttachTo("e", "reader", attempt, 0)));
    EXPECT_EQ(record.out, "out\n");
    EXPECT_EQ(record.ended->exited().code(), 9);
  }
}

TEST_F(AgentAttach, T44_Stdin_ByOffsetWithDuplicatesAndEnd) {
  const uint32_t stream = client_.Start(Cat("e"));
  ASSERT_TRUE(client_.Until([&] { return client_.record(stream).input_credit > 0; }));
  EXPECT_EQ(client_.record(stream).ready->writer_epoch(), 1u);
  client_.SendInput(stream, 0, "hello ");
  client_.SendInput(stream, 0, "hello ");    // a repeat
  client_.SendInput(stream, 3, "lo world");  // straddles
  CloseInput(client_, stream, 11);
  CloseInput(client_, stream, 11);
  const auto& record = client_.Finish(stream);
  EXPECT_EQ(record.out, "hello world");
  EXPECT_EQ(record.ended->exited().code(), 0);
}

TEST_F(AgentAttach, InputGap_IsAborted) {
  const uint32_t stream = client_.Start(Cat("e"));
  ASSERT_TRUE(client_.Until([&] { return client_.record(stream).input_credit > 0; }));
  client_.SendInput(stream, 1, "x");
  const auto& record = client_.Finish(stream);
  EXPECT_EQ(record.reset->reason(), "INPUT_GAP");
  EXPECT_EQ(record.reset->code(), 10u);
}

TEST_F(AgentAttach, NewWriter_GoesOnWhereTheOldOneStopped) {
  const uint32_t first = client_.Start(Cat("e"));
  ASSERT_TRUE(client_.Until([&] { return client_.record(first).input_credit > 0; }));
  client_.SendInput(first, 0, "abc");
  ASSERT_TRUE(client_.Until([&] { return client_.record(first).out == "abc"; }));
  agent::Attach attach;
  attach.set_execution_id("e");
  attach.mutable_writer()->set_holder("another");
  attach.mutable_writer()->set_attempt(1);
  const uint32_t second = client_.Attach(attach);
  ASSERT_TRUE(client_.Until([&] { return client_.record(second).input_credit > 0; }));
  EXPECT_EQ(client_.record(second).ready->input_accepted(), 3u);
  EXPECT_EQ(client_.record(second).ready->writer_epoch(), 2u);
  ASSERT_EQ(client_.record(first).warnings.size(), 1u);
  EXPECT_EQ(client_.record(first).warnings[0].reason(), "TAKEN_OVER");
  client_.SendInput(second, 3, "def");
  CloseInput(client_, second, 6);
  EXPECT_EQ(client_.Finish(first).out, "abcdef");
  EXPECT_EQ(client_.Finish(second).ended->exited().code(), 0);
}

TEST_F(AgentAttach, OldWriter_IsRefusedAfterTheTakeover) {
  const uint32_t first = client_.Start(Cat("e"));
  ASSERT_TRUE(client_.Until([&] { return client_.record(first).input_credit > 0; }));
  agent::Attach attach;
  attach.set_execution_id("e");
  attach.mutable_writer()->set_holder("another");
  attach.mutable_writer()->set_attempt(1);
  ASSERT_TRUE(WaitReady(client_, client_.Attach(attach)));
  client_.SendInput(first, 0, "late");
  EXPECT_EQ(client_.Finish(first).reset->reason(), "TAKEN_OVER");
}

TEST_F(AgentAttach, T41_ProgramThatDoesNotRead_PushesBackAndCanBeCancelled) {
  agent::Start start = Cat("e");
  start.clear_argv();
  start.add_argv("sleep");
  start.add_argv("1000");
  const uint32_t stream = client_.Start(start);
  ASSERT_TRUE(client_.Until([&] { return client_.record(stream).input_credit > 0; }));
  uint64_t sent = 0;
  const std::string block(32768, 'x');
  while (sent + block.size() <= client_.record(stream).input_credit) {
    client_.SendInput(stream, sent, block);
    sent += block.size();
    client_.Until([] { return false; }, milliseconds(20));
  }
  EXPECT_LE(sent, 512u * 1024);  // pipe and window
  agent::Command cancel;
  cancel.mutable_cancel()->set_by("t");
  client_.SendCommand(stream, cancel);
  EXPECT_TRUE(client_.Finish(stream).ended->has_cancelled());
}

TEST_F(AgentAttach, T40_LargeInput_ArrivesWhole) {
  agent::Start start = Cat("e");
  start.clear_argv();
  start.add_argv("sha256sum");
  const uint32_t stream = client_.Start(start);
  const uint64_t total = 40 * 1024 * 1024 + 1;
  std::string data(total, '\0');
  for (uint64_t i = 0; i < total; ++i) data[i] = static_cast<char>(i * 7 + (i >> 9));
  uint64_t sent = 0;
  while (sent < total) {
    ASSERT_TRUE(client_.Until([&] { return client_.record(stream).input_credit > sent; }));
    const uint64_t size =
        std::min<uint64_t>({65536, total - sent, client_.record(stream).input_credit - sent});
    client_.SendInput(stream, sent, std::string_view(data).substr(sent, size));
    sent += size;
  }
  CloseInput(client_, stream, total);
  EXPECT_EQ(client_.Finish(stream).out.substr(0, 64), HexEncode(Sha256(data)));
}

TEST_F(AgentAttach, ProgramThatClosesStdin_IsAnnouncedAndTheRestIsSwallowed) {
  agent::Start start = Cat("e");
  start.clear_argv();
  for (const char* word : {"sh", "-c", "exec 0<&-; echo closed; sleep 0.2; exit 6"}) {
    start.add_argv(word);
  }
  const uint32_t stream = client_.Start(start);
  ASSERT_TRUE(client_.Until([&] { return client_.record(stream).input_closed.has_value(); }));
  client_.SendInput(stream, 0, "for nobody");
  client_.SendInput(stream, 10, "more");
  const auto& record = client_.Finish(stream);
  ASSERT_TRUE(record.ended);
  EXPECT_EQ(record.ended->exited().code(), 6);
}

TEST_F(AgentAttach, T28_OpenStdin_DoesNotHoldTheEnd) {
  agent::Start start = Cat("e");
  start.clear_argv();
  start.add_argv("true");
  EXPECT_EQ(Run(start).ended->exited().code(), 0);
}

TEST_F(AgentAttach, InputForAnEndedProgram_IsRefusedWithItsEnd) {
  Run(Shell("e", "exit 5"));
  agent::Attach attach;
  attach.set_execution_id("e");
  attach.mutable_writer()->set_holder("w");
  attach.mutable_writer()->set_attempt(1);
  // The end comes by itself; a writer that is quicker than it gets the refusal.
  const auto& record = client_.Finish(client_.Attach(attach));
  ASSERT_TRUE(record.ended || record.reset);
  if (record.ended) {
    EXPECT_EQ(record.ended->exited().code(), 5);
  } else {
    EXPECT_EQ(record.reset->ended().exited().code(), 5);
  }
}

}  // namespace
}  // namespace sandbroker::test

// The agent under a peer that breaks the protocol, over a unix socket and over TLS: that link ends
// with a reason, the agent and its programs go on.
#include <gtest/gtest.h>

#include <random>

#include "lib/base/crypto.h"
#include "tests/support/agent_process.h"
#include "tests/support/raw_link_client.h"

namespace sandbroker::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class AgentHostile : public ::testing::TestWithParam<Over> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(good_.Open(agent_.door()));
    ASSERT_TRUE(bad_.Open(agent_.door()));
    running_ = good_.Start(MakeStart("good", {"sh", "-c", "echo up; read x; echo $x"}, true));
    ASSERT_TRUE(good_.Until([&] { return good_.record(running_).input_credit > 0; }));
  }
  static agent::Start MakeStart(const std::string& id, const std::vector<std::string>& argv,
                                bool with_stdin) {
    agent::Start start = test::MakeStart(id, argv);
    start.set_stdin(with_stdin);
    start.mutable_writer()->set_holder("w");
    start.mutable_writer()->set_attempt(1);
    return start;
  }
  // The bad link is over, with a reason; everything else is as before.
  void ExpectRefusedAndStanding(const std::string& words) {
    EXPECT_TRUE(bad_.WaitClosed());
    ASSERT_TRUE(bad_.link_reset()) << "no reason was given";
    EXPECT_NE(bad_.link_reset()->message().find(words), std::string::npos)
        << bad_.link_reset()->message();
    ExpectStanding();
  }
  void ExpectStanding() {
    ASSERT_TRUE(agent_.alive());
    good_.SendInput(running_, 0, "on\n");
    const auto& record = good_.Finish(running_);
    ASSERT_TRUE(record.ended);
    EXPECT_EQ(record.out, "up\non\n");
  }
  std::string Raw(uint32_t stream, int kind, const std::string& payload) {
    std::string message = wire::EncodeFrame(stream, wire::Kind::kData, payload);
    message[4] = static_cast<char>(kind);
    return message;
  }
  AgentProcess agent_{AgentSetup{GetParam()}};
  RawLinkClient good_;
  RawLinkClient bad_;
  uint32_t running_ = 0;
};

TEST_P(AgentHostile, UnknownKind) {
  bad_.SendMessage(Raw(1, 99, "x"));
  ExpectRefusedAndStanding("unknown kind 99");
}

TEST_P(AgentHostile, ShortFrame) {
  bad_.SendMessage("abc");
  ExpectRefusedAndStanding("frame of 3 bytes");
}

TEST_P(AgentHostile, TextMessage) {
  bad_.SendText("hello");
  ExpectRefusedAndStanding("frame of 0 bytes");
}

TEST_P(AgentHostile, ReservedBytes) {
  std::string message = Raw(1, 2, "x");
  message[6] = 1;
  bad_.SendMessage(message);
  ExpectRefusedAndStanding("reserved");
}

TEST_P(AgentHostile, OversizedControl) {
  bad_.SendMessage(Raw(0, 3, std::string(2 << 20, 'x')));
  ExpectRefusedAndStanding("limit 1048576");
}

TEST_P(AgentHostile, OversizedMessage) {
  bad_.SendMessage(std::string(wire::kMaxMessage + 100, 'x'));
  EXPECT_TRUE(bad_.WaitClosed());
  ExpectStanding();
}

TEST_P(AgentHostile, CreditOverrun) {
  const uint32_t stream = bad_.Start(MakeStart("e", {"sleep", "1000"}, true));
  ASSERT_TRUE(bad_.Until([&] { return bad_.record(stream).input_credit > 0; }));
  uint64_t sent = 0;
  for (int i = 0; i < 40; ++i) {
    bad_.SendInput(stream, sent, std::string(65536, 'x'));
    sent += 65536;
  }
  ExpectRefusedAndStanding("credit overrun");
}

TEST_P(AgentHostile, FramesThatAreNotTheBrokers) {
  bad_.Send(1, wire::Kind::kEnd, "");
  ExpectRefusedAndStanding("END on stream 1");
}

TEST_P(AgentHostile, StreamThatWasNeverOpened) {
  bad_.SendCredit(5, 100);
  ExpectRefusedAndStanding("never opened");
}

TEST_P(AgentHostile, StreamIdsThatDoNotGrow) {
  agent::Open open;
  *open.mutable_start() = MakeStart("e", {"true"}, false);
  bad_.Send(7, wire::Kind::kOpen, open.SerializeAsString());
  bad_.Send(7, wire::Kind::kOpen, open.SerializeAsString());
  ExpectRefusedAndStanding("must grow");
}

TEST_P(AgentHostile, StreamZeroWithoutControl) {
  bad_.Send(0, wire::Kind::kData, "xxxxxxxxxxx");
  ExpectRefusedAndStanding("DATA on stream 0");
}

TEST_P(AgentHostile, ProtoThatDoesNotParse) {
  bad_.Send(1, wire::Kind::kOpen, "\xff\xff\xff\xff");
  ExpectRefusedAndStanding("does not parse");
}

TEST_P(AgentHostile, ControlThatDoesNotParse) {
  bad_.Send(0, wire::Kind::kEvent, "\xff\xff\xff\xff");
  ExpectRefusedAndStanding("does not parse");
}

TEST_P(AgentHostile, SecondHello) {
  agent::Control control;
  control.mutable_broker_hello()->set_version(1);
  bad_.SendControl(control);
  ExpectRefusedAndStanding("wrong side or at the wrong time");
}

TEST_P(AgentHostile, DataForAnotherFd) {
  const uint32_t stream = bad_.Start(MakeStart("e", {"sleep", "1000"}, true));
  ASSERT_TRUE(bad_.Until([&] { return bad_.record(stream).input_credit > 0; }));
  const auto header = wire::EncodeDataHeader(stream, 0, 1);
  bad_.SendMessage(std::string(header.data(), header.size()) + "x");
  ExpectRefusedAndStanding("fd other than 0");
}

TEST_P(AgentHostile, SignalOutOfRange) {
  const uint32_t stream = bad_.Start(MakeStart("e", {"sleep", "1000"}, false));
  agent::Command command;
  command.mutable_signal()->set_number(99);
  bad_.SendCommand(stream, command);
  ExpectRefusedAndStanding("not within 1 to 64");
}

TEST_P(AgentHostile, GarbageBeneathTheWebSocket) {
  bad_.SendRaw(std::string(100000, '\xee'));
  EXPECT_TRUE(bad_.WaitClosed());
  ExpectStanding();
}

TEST_P(AgentHostile, GarbageInsteadOfHttp) {
  RawLinkClient garbage;
  ASSERT_TRUE(GetParam() == Over::kTls ? garbage.ConnectTls(agent_.door().port)
                                       : garbage.Connect(agent_.socket_path()));
  garbage.SendRaw(std::string(100000, '\xee'));
  EXPECT_FALSE(garbage.Upgrade());
  ExpectStanding();
}

TEST_P(AgentHostile, RandomFramesOnFreshLinks) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    RawLinkClient client;
    ASSERT_TRUE(client.Open(agent_.door()));
    for (int i = 0; i < 20 && !client.closed(); ++i) {
      std::string payload(random() % 40, '\0');
      for (char& c : payload) c = static_cast<char>(random());
      client.SendMessage(Raw(random() % 3, 1 + random() % 8, payload));
    }
    client.Close();
  }
  ExpectStanding();
}

TEST_P(AgentHostile, PeerThatAsksWithoutReading_CostsBoundedMemory) {
  const size_t before = agent_.resident_bytes();
  agent::Control query;
  query.mutable_query()->set_sequence(1);
  const std::string message = wire::EncodeFrame(0, wire::Kind::kEvent, query.SerializeAsString());
  RawLinkClient flooder;
  ASSERT_TRUE(flooder.Open(agent_.door()));
  // Blocks for good once both directions are full, unless the agent went on reading.
  flooder.Flood(message, 200000, seconds(2));
  EXPECT_LT(agent_.resident_bytes(), before + kMemoryFactor * (16u << 20));
  ExpectStanding();
}

INSTANTIATE_TEST_SUITE_P(Links, AgentHostile, ::testing::Values(Over::kUnix, Over::kTls),
                         [](const auto& over) {
                           return over.param == Over::kTls ? "Tls" : "Unix";
                         });

}  // namespace
}  // namespace sandbroker::test

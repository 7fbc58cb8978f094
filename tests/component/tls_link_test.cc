// The broker's dialer and link over TLS, against the real agent and who stands in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <thread>

#include "lib/base/certificate.h"
#include "lib/base/crypto.h"
#include "tests/component/tls_link_fixture.h"
#include "tests/support/interposer.h"

namespace sandbroker::test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST_F(TlsLinkTest, WholeExec_RunsAndNamesTheCertificate) {
  AgentProcess agent(AgentSetup{Over::kTls});
  const Dialed link = Dial(Target(agent));
  ASSERT_TRUE(link.ok()) << link.status();
  RawLinkClient other;
  ASSERT_TRUE(other.Open(agent.door()));
  EXPECT_EQ((*link)->info().fingerprint, HexEncode(other.certificate_hash()));
  EXPECT_EQ((*link)->info().boot_id, other.hello().boot_id());
  TestRun run;
  Finish(&run, **link, Start("e", {"sh", "-c", "echo out; exit 7"}));
  ASSERT_TRUE(run.ended);
  EXPECT_EQ(run.ended->exited().code(), 7);
  EXPECT_EQ(run.output, "out\n");
}

TEST_F(TlsLinkTest, SixtyFourMiBBothWays_ArriveAsTheyWere) {
  AgentProcess agent(AgentSetup{Over::kTls});
  const Dialed link = Dial(Target(agent));
  ASSERT_TRUE(link.ok()) << link.status();
  TestRun run;
  const std::string block = RandomBytes(1 << 20);
  for (int i = 0; i < 64; ++i) run.input += block.substr(i) + block.substr(0, i);
  agent::Open open = Start("cat", {"cat"});
  open.mutable_start()->set_stdin(true);
  open.mutable_start()->mutable_writer()->set_holder("w");
  open.mutable_start()->mutable_writer()->set_attempt(1);
  Finish(&run, **link, open);
  ASSERT_TRUE(run.ended) << run.lost;
  EXPECT_EQ(run.output.size(), 64u << 20);
  EXPECT_EQ(HexEncode(Sha256(run.output)), HexEncode(Sha256(run.input)));
}

TEST_F(TlsLinkTest, AgentThatTrustsAnotherKey_RefusesForGood) {
  AgentProcess agent(AgentSetup{Over::kTls});
  const Dialed link = Dial(Target(agent.door().port, SigningKey::Make(KeyKind::kEd25519)));
  EXPECT_EQ(ReasonOf(link.status()), Reason::kAgentUnreachable);
  EXPECT_THAT(link.status().ToString(), HasSubstr("refused by the agent: UNAUTHENTICATED"));
  EXPECT_EQ(MetadataOf(link.status()), "");
}

TEST_F(TlsLinkTest, AnotherIncarnation_IsRefused) {
  AgentProcess agent(AgentSetup{Over::kTls});
  broker::DialTarget target = Target(agent);
  const Dialed first = Dial(target);
  ASSERT_TRUE(first.ok()) << first.status();
  target.expected_boot_id = (*first)->info().boot_id;
  target.expected_fingerprint = (*first)->info().fingerprint;
  EXPECT_TRUE(Dial(target).ok());
  target.expected_boot_id = std::string(32, '0');
  EXPECT_EQ(ReasonOf(Dial(target).status()), Reason::kIncarnationChanged);
  target.expected_boot_id = (*first)->info().boot_id;
  target.expected_fingerprint = HexEncode(Sha256("another"));
  EXPECT_EQ(ReasonOf(Dial(target).status()), Reason::kIncarnationChanged);
}

TEST_F(TlsLinkTest, HostName_IsResolved) {
  AgentProcess agent(AgentSetup{Over::kTls});
  broker::DialTarget target = Target(agent);
  target.host = "localhost";
  const Dialed link = Dial(target);
  EXPECT_TRUE(link.ok()) << link.status();
}

// A backend reads the pod again then; nothing has been asked of anybody.
TEST_F(TlsLinkTest, NobodyListens_IsToldApart) {
  asio::io_context io;
  uint16_t port = 0;
  {
    tcp::acceptor closed(io, {asio::ip::address_v4::loopback(), 0});
    port = closed.local_endpoint().port();
  }
  const Dialed link = Dial(Target(port, SigningKey::Make(KeyKind::kEd25519)), milliseconds(200));
  EXPECT_EQ(ReasonOf(link.status()), Reason::kAgentUnreachable);
  EXPECT_EQ(MetadataOf(link.status()), "refused");
}

TEST_F(TlsLinkTest, NobodyAnswers_IsToldApart) {
  asio::io_context io;
  // The kernel connects, and nobody ever speaks.
  tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  const Dialed link =
      Dial(Target(silent.local_endpoint().port(), SigningKey::Make(KeyKind::kEd25519)),
           milliseconds(200));
  EXPECT_EQ(ReasonOf(link.status()), Reason::kAgentUnreachable);
  EXPECT_EQ(MetadataOf(link.status()), "unanswered");
}

// As when the address is another pod's by now.
TEST_F(TlsLinkTest, SomethingElseAnswers_IsToldApartAtOnce) {
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::thread other([&] {
    tcp::socket socket = acceptor.accept();
    asio::write(socket, asio::buffer(std::string("HTTP/1.1 400 Bad Request\r\n\r\n")));
    char byte;
    boost::system::error_code error;
    while (!error) socket.read_some(asio::buffer(&byte, 1), error);
  });
  const Dialed link =
      Dial(Target(acceptor.local_endpoint().port(), SigningKey::Make(KeyKind::kEd25519)), kBound);
  other.join();
  EXPECT_EQ(ReasonOf(link.status()), Reason::kAgentUnreachable);
  EXPECT_EQ(MetadataOf(link.status()), "foreign") << link.status();
}

TEST_F(TlsLinkTest, ConnectionThatBreaksBeforeTheProof_IsMadeAgain) {
  AgentProcess agent(AgentSetup{Over::kTls});
  Interposer front(agent.door().port, {}, 3);
  const Dialed link = Dial(Target(front.port(), *agent.door().key));
  EXPECT_TRUE(link.ok()) << link.status();
}

TEST_F(TlsLinkTest, TargetWithoutKey_IsAnError) {
  broker::DialTarget target = Target(1, SigningKey::Make(KeyKind::kEd25519));
  target.signing_key = nullptr;
  EXPECT_EQ(ReasonOf(Dial(target).status()), Reason::kInternal);
}

// Links come and go; executions do not.
TEST_F(TlsLinkTest, LostLink_IsFollowedByOneThatGoesOn) {
  AgentProcess agent(AgentSetup{Over::kTls});
  Interposer front(agent.door().port);
  broker::DialTarget target = Target(front.port(), *agent.door().key);
  const Dialed first = Dial(target);
  ASSERT_TRUE(first.ok()) << first.status();
  TestRun run;
  agent::Open open = Start("e", {"sh", "-c", "echo before; read line; echo $line"});
  open.mutable_start()->set_stdin(true);
  open.mutable_start()->mutable_writer()->set_holder("w");
  open.mutable_start()->mutable_writer()->set_attempt(1);
  run.ends_input = false;  // the program reads on after the link
  OnLoop([&] {
    run.on_data = [&] { front.Cut(); };
    run.Start(**first, open);
  });
  Await(&run);
  OnLoop([&] { run.Drop(); });
  EXPECT_EQ(run.output, "before\n");
  EXPECT_EQ(MetadataOf(run.lost), "gone") << run.lost;
  EXPECT_EQ(lost_.get_future().wait_for(kBound), std::future_status::ready);

  target.expected_boot_id = (*first)->info().boot_id;
  target.expected_fingerprint = (*first)->info().fingerprint;
  const Dialed second = Dial(target);
  ASSERT_TRUE(second.ok()) << second.status();
  TestRun rest;
  rest.input = "after\n";
  agent::Open again;
  again.mutable_attach()->set_execution_id("e");
  again.mutable_attach()->mutable_reader()->set_holder("reader");
  again.mutable_attach()->mutable_reader()->set_attempt(2);
  again.mutable_attach()->mutable_reader()->set_offset(run.output.size());
  again.mutable_attach()->mutable_writer()->set_holder("w");
  again.mutable_attach()->mutable_writer()->set_attempt(2);
  Finish(&rest, **second, again);
  ASSERT_TRUE(rest.ended) << rest.lost;
  EXPECT_EQ(rest.output, "after\n");
}

// The broker signs what it was shown; the agent shows something else.
TEST_F(TlsLinkTest, ManInTheMiddle_IsRefusedByTheAgent) {
  AgentProcess agent(AgentSetup{Over::kTls});
  Interposer man(agent.door().port, MakeIdentity());
  const Dialed link = Dial(Target(man.port(), *agent.door().key));
  EXPECT_THAT(link.status().ToString(), HasSubstr("refused by the agent: UNAUTHENTICATED"));
  RawLinkClient direct;
  EXPECT_TRUE(direct.Open(agent.door()));
}

TEST_F(TlsLinkTest, CancelledDial_EndsAtOnceAndLeavesALinkThatIsUpAlone) {
  AgentProcess agent(AgentSetup{Over::kTls});
  asio::io_context io;
  tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  CancelSource cancel;
  broker::DialTarget target = Target(silent.local_endpoint().port(), *agent.door().key);
  target.cancel = cancel.token();
  std::unique_ptr<Timer> timer;
  OnLoop([&] { timer = loop_.After(milliseconds(20), [&] { cancel.Cancel(); }); });
  EXPECT_EQ(ReasonOf(Dial(target).status()), Reason::kCancelled);

  CancelSource late;
  target = Target(agent);
  target.cancel = late.token();
  const Dialed link = Dial(target);
  ASSERT_TRUE(link.ok()) << link.status();
  OnLoop([&] { late.Cancel(); });
  TestRun run;
  Finish(&run, **link, Start("e", {"echo", "up"}));
  EXPECT_EQ(run.output, "up\n");
}

// Cancelled, and it also succeeded: one of the two is told, and it is so.
TEST_F(TlsLinkTest, CancelAtAnyMoment_AnswersOnceAndLeavesNothing) {
  AgentProcess agent(AgentSetup{Over::kTls});
  ASSERT_TRUE(Dial(Target(agent)).ok());
  const size_t fds = agent.open_fds();
  int up = 0;
  for (int i = 0; i < 60; ++i) {
    CancelSource cancel;
    broker::DialTarget target = Target(agent);
    target.cancel = cancel.token();
    std::unique_ptr<Timer> timer;
    OnLoop(
        [&] { timer = loop_.After(std::chrono::microseconds(200) * i, [&] { cancel.Cancel(); }); });
    const Dialed link = Dial(target);
    OnLoop([&] { timer.reset(); });
    if (!link.ok()) {
      EXPECT_EQ(ReasonOf(link.status()), Reason::kCancelled);
      continue;
    }
    ++up;
    OnLoop([&] {
      EXPECT_TRUE((*link)->open());
      (*link)->Close(absl::CancelledError("enough"));
    });
  }
  RecordProperty("up", up);
  // Each connection that was given up is closed at the agent, too.
  RawLinkClient client;
  ASSERT_TRUE(client.Open(agent.door()));
  for (int i = 0; agent.open_fds() > fds + 1 && i < 1000; ++i) {
    client.Finish(client.Start(MakeStart("e" + std::to_string(i), {"true"})));
  }
  EXPECT_LE(agent.open_fds(), fds + 1);
}

}  // namespace
}  // namespace sandbroker::test

// The broker's dialer and link over TLS, against the real agent, against who stands in between, and
// against agents that a test plays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <functional>
#include <future>
#include <thread>

#include "lib/base/certificate.h"
#include "lib/base/crypto.h"
#include "lib/base/status.h"
#include "lib/base/tls.h"
#include "lib/link/native_dialer.h"
#include "lib/wire/handshake.h"
#include "tests/support/agent_process.h"
#include "tests/support/interposer.h"
#include "tests/support/raw_link_client.h"

namespace sandbroker::test {
namespace {

namespace asio = boost::asio;
namespace websocket = boost::beast::websocket;
using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr auto kBound = seconds(30);
constexpr uint64_t kWindow = 1 << 20;

using Dialed = absl::StatusOr<std::shared_ptr<broker::AgentLink>>;

// One execution over a link, with its input given and its output kept. Loop thread only, but for
// what the test does before and after.
class Run : public broker::AgentStreamHandler {
 public:
  std::string input;
  std::string output;
  std::optional<agent::Ended> ended;
  std::optional<agent::Reset> reset;
  absl::Status lost;
  std::promise<void> over;
  std::function<void()> on_data = [] {};

  void Start(broker::AgentLink& link, const agent::Open& open) {
    stream_ = link.Open(open, kWindow, this);
  }
  void Drop() { stream_.reset(); }

  void OnEvent(const agent::Event&) override {}
  void OnData(uint64_t, int, SharedBytes data) override {
    output.append(data.data(), data.size());
    stream_->Consumed(data.size());
    on_data();
  }
  void OnInputRoom() override {
    while (sent_ < input.size() && stream_->InputRoom() > 0) {
      const size_t size = std::min<size_t>(stream_->InputRoom(), input.size() - sent_);
      stream_->SendInput(sent_, SharedBytes::Copy({input.data() + sent_, size}));
      sent_ += size;
    }
    if (sent_ < input.size() || std::exchange(closed_, true)) return;
    agent::Command close;
    close.mutable_close_input()->set_offset(sent_);
    stream_->Send(close);
  }
  void OnEnd(const agent::Ended& end) override {
    ended = end;
    over.set_value();
  }
  void OnReset(const agent::Reset& why) override {
    reset = why;
    over.set_value();
  }
  void OnLinkLost(const absl::Status& why) override {
    lost = why;
    over.set_value();
  }

 private:
  std::unique_ptr<broker::AgentStream> stream_;
  size_t sent_ = 0;
  bool closed_ = false;
};

class TlsLinkTest : public ::testing::Test {
 protected:
  TlsLinkTest() { loop_.Start(); }
  ~TlsLinkTest() override {
    OnLoop([this] {
      for (const auto& link : links_) link->Close(absl::CancelledError("the test is over"));
      links_.clear();
    });
    loop_.Stop();
  }

  void OnLoop(const std::function<void()>& fn) {
    std::promise<void> done;
    loop_.Post([&] {
      fn();
      done.set_value();
    });
    done.get_future().wait();
  }
  broker::DialTarget Target(uint16_t port, const SigningKey& key) {
    broker::DialTarget target;
    target.host = "127.0.0.1";
    target.port = port;
    target.signing_key = std::make_shared<SigningKey>(key);
    return target;
  }
  broker::DialTarget Target(const AgentProcess& agent) {
    return Target(agent.door().port, *agent.door().key);
  }
  Dialed Dial(const broker::DialTarget& target, Duration bound = kBound) {
    auto answer = std::make_shared<std::promise<Dialed>>();
    loop_.Post([=, this] {
      dialer_.Dial(
          target, bound,
          [this](const absl::Status& why) {
            if (!std::exchange(was_lost_, true)) lost_.set_value(why);
          },
          [=, this](absl::StatusOr<broker::AgentDialer::Dialed> dialed) {
            if (!dialed.ok()) return answer->set_value(dialed.status());
            EXPECT_EQ(dialed->peer_pid, 0);
            links_.push_back(dialed->link);
            answer->set_value(dialed->link);
          });
    });
    auto future = answer->get_future();
    if (future.wait_for(kBound + kBound) != std::future_status::ready) {
      return absl::DeadlineExceededError("the dial never answered");
    }
    return future.get();
  }
  // Until it is over; the stream is gone then.
  void Finish(Run* run, broker::AgentLink& link, const agent::Open& open) {
    OnLoop([&] { run->Start(link, open); });
    Await(run);
    OnLoop([&] { run->Drop(); });
  }
  void Await(Run* run) {
    ASSERT_EQ(run->over.get_future().wait_for(kBound), std::future_status::ready);
  }
  static agent::Open Start(const std::string& id, const std::vector<std::string>& argv) {
    agent::Open open;
    *open.mutable_start() = MakeStart(id, argv);
    return open;
  }
  static std::string MetadataOf(const absl::Status& status) {
    const auto metadata = DetailOf(status).metadata;
    const auto found = metadata.find("connection");
    return found == metadata.end() ? "" : found->second;
  }

  Loop loop_;
  link::NativeDialer dialer_{loop_, {}};
  std::vector<std::shared_ptr<broker::AgentLink>> links_;
  bool was_lost_ = false;
  std::promise<absl::Status> lost_;  // of whichever link was lost first
};

TEST_F(TlsLinkTest, WholeExec_RunsAndNamesTheCertificate) {
  AgentProcess agent(AgentSetup{Over::kTls});
  const Dialed link = Dial(Target(agent));
  ASSERT_TRUE(link.ok()) << link.status();
  RawLinkClient other;
  ASSERT_TRUE(other.Open(agent.door()));
  EXPECT_EQ((*link)->info().fingerprint, HexEncode(other.certificate_hash()));
  EXPECT_EQ((*link)->info().boot_id, other.hello().boot_id());
  Run run;
  Finish(&run, **link, Start("e", {"sh", "-c", "echo out; exit 7"}));
  ASSERT_TRUE(run.ended);
  EXPECT_EQ(run.ended->exited().code(), 7);
  EXPECT_EQ(run.output, "out\n");
}

TEST_F(TlsLinkTest, SixtyFourMiBBothWays_ArriveAsTheyWere) {
  AgentProcess agent(AgentSetup{Over::kTls});
  const Dialed link = Dial(Target(agent));
  ASSERT_TRUE(link.ok()) << link.status();
  Run run;
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
  Run run;
  agent::Open open = Start("e", {"sh", "-c", "echo before; read line; echo $line"});
  open.mutable_start()->set_stdin(true);
  open.mutable_start()->mutable_writer()->set_holder("w");
  open.mutable_start()->mutable_writer()->set_attempt(1);
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
  Run rest;
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
  Run run;
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

// An agent that a test plays: serves one link by TLS with its identity, and answers the broker's
// hello with what `proof` makes of it.
class PlayedAgent {
 public:
  using Proof = std::function<agent::AgentProof(const wire::TlsFacts& facts)>;

  PlayedAgent(Identity identity, Proof proof)
      : identity_(std::move(identity)),
        proof_(std::move(proof)),
        acceptor_(io_, {asio::ip::address_v4::loopback(), 0}) {
    thread_ = std::thread([this] { Serve(); });
  }
  ~PlayedAgent() { thread_.join(); }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  using Stream = asio::ssl::stream<tcp::socket>;

  void Serve() {
    asio::ssl::context tls(asio::ssl::context::tlsv13_server);
    EXPECT_TRUE(SetUpTlsServer(tls.native_handle(), identity_).ok());
    websocket::stream<Stream> link(acceptor_.accept(), tls);
    link.binary(true);
    link.set_option(websocket::stream_base::decorator([](websocket::response_type& response) {
      response.set(boost::beast::http::field::sec_websocket_protocol,
                   boost::string_view(wire::kSubprotocol.data(), wire::kSubprotocol.size()));
    }));
    link.next_layer().handshake(Stream::server);
    link.accept();
    const std::string nonce(wire::kNonceSize, 'n');
    agent::Control hello;
    hello.mutable_agent_hello()->set_version_min(wire::kVersion);
    hello.mutable_agent_hello()->set_version_max(wire::kVersion);
    hello.mutable_agent_hello()->set_boot_id("boot");
    hello.mutable_agent_hello()->set_nonce(nonce);
    Send(link, hello);
    boost::beast::flat_buffer buffer;
    boost::system::error_code error;
    link.read(buffer, error);
    const std::string message(static_cast<const char*>(buffer.data().data()), buffer.size());
    const auto frame = wire::ParseFrame(message);
    agent::Control answer;
    if (error || !frame.ok() || !answer.ParseFromString(std::string(frame->payload))) return;
    const std::string hash = Sha256(identity_.certificate);
    agent::Control proof;
    *proof.mutable_agent_proof() = proof_({nonce, answer.broker_hello().nonce(), "boot", hash});
    Send(link, proof);
    while (!error) link.read(buffer, error);  // until the broker has gone
  }
  static void Send(websocket::stream<Stream>& link, const agent::Control& control) {
    const std::string frame = wire::EncodeFrame(0, wire::Kind::kEvent, control.SerializeAsString());
    boost::system::error_code ignored;
    link.write(asio::buffer(frame), ignored);
  }

  const Identity identity_;
  const Proof proof_;
  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::thread thread_;
};

class TlsPlayedAgentTest : public TlsLinkTest {
 protected:
  Dialed DialPlayed(const Identity& identity, PlayedAgent::Proof proof) {
    PlayedAgent played(identity, std::move(proof));
    const Dialed link = Dial(Target(played.port(), SigningKey::Make(KeyKind::kEd25519)));
    OnLoop([&] {
      if (link.ok()) (*link)->Close(absl::CancelledError("enough"));
    });
    return link;
  }
  static agent::AgentProof Signed(wire::Side side, const SigningKey& key,
                                  const wire::TlsFacts& facts) {
    agent::AgentProof proof;
    proof.set_signature(wire::MakeSignature(side, key, facts));
    return proof;
  }
  void ExpectRefused(const Dialed& link) {
    EXPECT_EQ(ReasonOf(link.status()), Reason::kAgentUnreachable) << link.status();
    EXPECT_EQ(MetadataOf(link.status()), "") << link.status();
  }

  const Identity own_ = MakeIdentity();
};

TEST_F(TlsPlayedAgentTest, ProofByTheCertificatesKey_IsTaken) {
  const Dialed link = DialPlayed(own_, [&](const wire::TlsFacts& facts) {
    return Signed(wire::Side::kAgent, own_.key, facts);
  });
  EXPECT_TRUE(link.ok()) << link.status();
}

// As when somebody with a certificate of its own passes on what the true agent has signed.
TEST_F(TlsPlayedAgentTest, ProofOfWhoShowedAnotherCertificate_IsRefused) {
  const Identity other = MakeIdentity();
  ExpectRefused(DialPlayed(own_, [&](const wire::TlsFacts& facts) {
    return Signed(
        wire::Side::kAgent, other.key,
        {facts.agent_nonce, facts.broker_nonce, facts.boot_id, Sha256(other.certificate)});
  }));
  ExpectRefused(DialPlayed(own_, [&](const wire::TlsFacts& facts) {
    return Signed(
        wire::Side::kAgent, own_.key,
        {facts.agent_nonce, facts.broker_nonce, facts.boot_id, Sha256(other.certificate)});
  }));
  ExpectRefused(DialPlayed(own_, [&](const wire::TlsFacts& facts) {
    return Signed(wire::Side::kAgent, other.key, facts);
  }));
}

TEST_F(TlsPlayedAgentTest, ProofOfAnotherLinkOrSideOrKind_IsRefused) {
  const std::string old_nonce(wire::kNonceSize, 'o');
  ExpectRefused(DialPlayed(own_, [&](const wire::TlsFacts& facts) {
    return Signed(wire::Side::kAgent, own_.key,
                  {facts.agent_nonce, old_nonce, facts.boot_id, facts.certificate_hash});
  }));
  ExpectRefused(DialPlayed(own_, [&](const wire::TlsFacts& facts) {
    return Signed(wire::Side::kBroker, own_.key, facts);
  }));
  ExpectRefused(DialPlayed(own_, [](const wire::TlsFacts& facts) {
    agent::AgentProof proof;
    proof.set_proof(wire::MakeProof(wire::Side::kAgent, "", facts.agent_nonce, facts.broker_nonce,
                                    facts.boot_id));
    return proof;
  }));
}

}  // namespace
}  // namespace sandbroker::test

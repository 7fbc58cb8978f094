// What the broker takes for the proof of an agent over TLS, from agents that a test plays.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <thread>

#include "lib/base/certificate.h"
#include "lib/base/crypto.h"
#include "lib/base/tls.h"
#include "lib/wire/handshake.h"
#include "tests/component/tls_link_fixture.h"

namespace sandbroker::test {
namespace {

namespace asio = boost::asio;
namespace websocket = boost::beast::websocket;
using asio::ip::tcp;

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

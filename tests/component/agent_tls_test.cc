// The agent on a TCP port: who is let in there, and what becomes of everybody else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <set>

#include "lib/base/certificate.h"
#include "lib/base/crypto.h"
#include "lib/wire/handshake.h"
#include "tests/support/agent_process.h"
#include "tests/support/raw_link_client.h"

namespace sandbroker::test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using ::testing::HasSubstr;

constexpr uint32_t kUnauthenticated = 16;
constexpr uid_t kNobody = 65534;

class AgentTls : public ::testing::Test {
 protected:
  bool Meet(RawLinkClient* client) {
    return client->ConnectTls(agent_.door().port) && client->Upgrade() && client->ReceiveHello();
  }
  void ExpectRefused(RawLinkClient* client, const agent::BrokerHello& hello) {
    EXPECT_FALSE(client->Prove(hello));
    ASSERT_TRUE(client->link_reset());
    EXPECT_EQ(client->link_reset()->code(), kUnauthenticated);
    EXPECT_TRUE(client->WaitClosed());
    ExpectStanding();
  }
  void ExpectStanding() {
    RawLinkClient good;
    ASSERT_TRUE(good.Open(agent_.door()));
    EXPECT_EQ(good.Finish(good.Start(MakeStart(NewId(), {"echo", "up"}))).out, "up\n");
  }
  static std::string NewId() {
    static int last = 0;
    return "e" + std::to_string(++last);
  }
  const SigningKey& key() const { return *agent_.door().key; }

  AgentProcess agent_{AgentSetup{Over::kTls}};
};

// Bytes on the port, as whoever speaks no TLS sends them.
class Stranger {
 public:
  explicit Stranger(uint16_t port) { socket_.connect({asio::ip::address_v4::loopback(), port}); }
  void Send(const std::string& bytes) {
    error_code ignored;
    asio::write(socket_, asio::buffer(bytes), ignored);
  }
  bool WaitClosed() {
    bool closed = false;
    ReadOn(&closed);
    io_.restart();
    io_.run_for(RawLinkClient::kBound);
    return closed;
  }

 private:
  void ReadOn(bool* closed) {
    socket_.async_read_some(asio::buffer(bytes_), [this, closed](error_code error, size_t) {
      *closed = !!error;
      if (!error) ReadOn(closed);
    });
  }

  asio::io_context io_{1};
  tcp::socket socket_{io_};
  std::array<char, 4096> bytes_;
};

TEST_F(AgentTls, ProvenBroker_RunsPrograms) {
  RawLinkClient client;
  ASSERT_TRUE(client.Open(agent_.door()));
  const auto& record = client.Finish(
      client.Start(test::MakeStart("e", {"sh", "-c", "echo out; echo err >&2; exit 7"})));
  ASSERT_TRUE(record.ended);
  EXPECT_EQ(record.ended->exited().code(), 7);
  EXPECT_EQ(record.out, "out\n");
  EXPECT_EQ(record.err, "err\n");
}

TEST_F(AgentTls, BrokerWithAnotherKey_IsRefused) {
  RawLinkClient client;
  ASSERT_TRUE(Meet(&client));
  ExpectRefused(&client, client.SignedHello(SigningKey::Make(KeyKind::kEd25519)));
}

TEST_F(AgentTls, HelloWithoutSignature_IsRefusedWhateverItsProof) {
  RawLinkClient client;
  ASSERT_TRUE(Meet(&client));
  agent::BrokerHello hello = client.SignedHello(key());
  hello.clear_signature();
  hello.set_proof(wire::MakeProof(wire::Side::kBroker, "", client.hello().nonce(), hello.nonce(),
                                  client.hello().boot_id()));
  ExpectRefused(&client, hello);
}

TEST_F(AgentTls, HelloOfAnotherLink_IsRefused) {
  RawLinkClient first, second;
  ASSERT_TRUE(Meet(&first) && Meet(&second));
  const agent::BrokerHello hello = first.SignedHello(key());
  ExpectRefused(&second, hello);
  EXPECT_TRUE(first.Prove(hello));
}

TEST_F(AgentTls, SignatureOverAnotherCertificate_IsRefused) {
  RawLinkClient client;
  ASSERT_TRUE(Meet(&client));
  agent::BrokerHello hello = client.SignedHello(key());
  hello.set_signature(
      wire::MakeSignature(wire::Side::kBroker, key(),
                          {client.hello().nonce(), hello.nonce(), client.hello().boot_id(),
                           Sha256(MakeIdentity().certificate)}));
  ExpectRefused(&client, hello);
}

TEST_F(AgentTls, AgentsSignatureSentBack_IsRefused) {
  RawLinkClient client;
  ASSERT_TRUE(Meet(&client));
  agent::BrokerHello hello = client.SignedHello(key());
  hello.set_signature(wire::MakeSignature(wire::Side::kAgent, key(),
                                          {client.hello().nonce(), hello.nonce(),
                                           client.hello().boot_id(), client.certificate_hash()}));
  ExpectRefused(&client, hello);
}

TEST_F(AgentTls, PlainHttp_IsClosed) {
  Stranger stranger(agent_.door().port);
  stranger.Send("GET / HTTP/1.1\r\nHost: agent\r\nUpgrade: websocket\r\n\r\n");
  EXPECT_TRUE(stranger.WaitClosed());
  ExpectStanding();
}

TEST_F(AgentTls, Garbage_IsClosed) {
  Stranger stranger(agent_.door().port);
  stranger.Send(std::string(100000, '\xee'));
  EXPECT_TRUE(stranger.WaitClosed());
  ExpectStanding();
}

TEST_F(AgentTls, HalfATlsHandshake_IsClosedInTime) {
  Stranger stranger(agent_.door().port);
  // The beginning of a ClientHello of 512 bytes.
  stranger.Send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
  EXPECT_TRUE(stranger.WaitClosed());
  ExpectStanding();
}

TEST_F(AgentTls, OlderTls_IsRefused) {
  asio::io_context io(1);
  asio::ssl::context tls(asio::ssl::context::tlsv12_client);
  asio::ssl::stream<tcp::socket> client(io, tls);
  client.next_layer().connect({asio::ip::address_v4::loopback(), agent_.door().port});
  error_code error;
  client.handshake(asio::ssl::stream_base::client, error);
  EXPECT_THAT(error.message(), HasSubstr("protocol version"));
  ExpectStanding();
}

// Any program beside the agent can do that, without end.
TEST_F(AgentTls, CrowdOfStrangers_DoesNotKeepTheBrokerOut) {
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 200; ++i) crowd.push_back(std::make_unique<Stranger>(agent_.door().port));
  ExpectStanding();
  EXPECT_TRUE(crowd.front()->WaitClosed());
  EXPECT_LT(agent_.open_fds(), 100u);
}

TEST(AgentTlsStart, SecondListedKey_IsAccepted) {
  const SigningKey next = SigningKey::Make(KeyKind::kEd25519);
  const std::string path = ::testing::TempDir() + "broker_key_" + std::to_string(::getpid());
  std::ofstream(path) << next.PublicBase64() << "\n";
  AgentProcess agent(AgentSetup{Over::kTls, {"--broker-key-file", path}});
  std::filesystem::remove(path);
  AgentDoor door = agent.door();
  for (const SigningKey& key : {*door.key, next}) {
    door.key = key;
    RawLinkClient client;
    EXPECT_TRUE(client.Open(door));
  }
}

TEST(AgentTlsStart, EachStart_MakesAnotherCertificate) {
  std::set<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    AgentProcess agent(AgentSetup{Over::kTls});
    RawLinkClient client;
    ASSERT_TRUE(client.ConnectTls(agent.door().port));
    seen.insert(client.certificate_hash());
  }
  EXPECT_EQ(seen.size(), 2u);
}

// What an image has there decides nothing.
TEST(AgentTlsStart, OpenSslConfigurationOfTheImage_IsNotRead) {
  const std::string path = ::testing::TempDir() + "openssl_" + std::to_string(::getpid());
  // With the null provider alone nothing can be computed.
  std::ofstream(path) << "openssl_conf = main\n[main]\nproviders = all\n"
                         "[all]\nnull = one\n[one]\nactivate = 1\n";
  AgentProcess agent(AgentSetup{Over::kTls, {}, {"PATH=/usr/bin:/bin", "OPENSSL_CONF=" + path}});
  RawLinkClient client;
  EXPECT_TRUE(client.Open(agent.door()));
  std::filesystem::remove(path);
}

TEST(AgentTlsStart, SocketAndProofThatDoNotGoTogether_AreRefused) {
  const std::string key = SigningKey::Make(KeyKind::kEd25519).PublicBase64();
  using Flags = std::vector<std::string>;
  for (const Flags& flags :
       {Flags{"--listen-tcp", "127.0.0.1:0"}, Flags{"--broker-key", key},
        Flags{"--listen-tcp", "127.0.0.1:0", "--broker-key", key, "--secret-fd", "4"},
        Flags{"--listen-tcp", "127.0.0.1:0", "--broker-key", key, "--listen-fd", "3"},
        Flags{"--listen-tcp", "::1:0", "--broker-key", key},
        Flags{"--listen-tcp", "127.0.0.1:65536", "--broker-key", key},
        Flags{"--listen-tcp", "127.0.0.1:0", "--broker-key", "short"}}) {
    AgentProcess agent(flags);
    EXPECT_EQ(WEXITSTATUS(agent.WaitEnd()), 2) << ::testing::PrintToString(flags);
  }
}

struct PrivilegeCase {
  std::string name;
  AgentSetup setup;
  std::string uid;
};

// What the test is called by, not its bytes: those differ each time.
void PrintTo(const PrivilegeCase& one, std::ostream* out) { *out << one.name; }

class AgentPrintStatus : public ::testing::TestWithParam<PrivilegeCase> {};

// The probe of a broker that knows nothing of the image: the agent's own file, by what each of its
// children is until it executes something.
TEST_P(AgentPrintStatus, OwnExecutable_SaysWithWhichRightsProgramsRun) {
  if (GetParam().setup.user && ::geteuid() != 0) GTEST_SKIP() << "needs root";
  AgentProcess agent(GetParam().setup);
  RawLinkClient client;
  ASSERT_TRUE(client.Open(agent.door()));
  agent::Start start = MakeStart("probe", {"/proc/self/exe", "--print-status"});
  start.clear_cwd();
  const auto& record = client.Finish(client.Start(start));
  ASSERT_TRUE(record.ended);
  ASSERT_TRUE(record.ended->has_exited()) << record.ended->start_failed().message();
  EXPECT_EQ(record.ended->exited().code(), 0) << record.err;
  EXPECT_THAT(record.out, HasSubstr("\nUid:\t" + GetParam().uid + "\t"));
  EXPECT_THAT(record.out, HasSubstr("\nNoNewPrivs:\t1\n"));
  for (const char* line : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Seccomp"}) {
    EXPECT_THAT(record.out, HasSubstr(std::string("\n") + line + ":\t"));
  }
  // The agent is not dumpable: its folder in /proc is root's, whoever it is.
  struct stat info {};
  ASSERT_EQ(::stat(("/proc/" + std::to_string(agent.pid()) + "/environ").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Agents, AgentPrintStatus,
    ::testing::Values(PrivilegeCase{"Self", {}, std::to_string(::geteuid())},
                      PrivilegeCase{"SelfOverTls", {Over::kTls}, std::to_string(::geteuid())},
                      PrivilegeCase{
                          "Nobody", {Over::kUnix, {}, {}, {{kNobody, kNobody}}}, "65534"}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace sandbroker::test

// The broker's side of a link against an agent that a test plays.
#include "lib/link/native_link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "lib/base/status.h"
#include "lib/link/native_dialer.h"
#include "lib/wire/handshake.h"

namespace sandbroker::testing {
namespace {

namespace agent = ::sandbroker::agent::v1;
namespace websocket = boost::beast::websocket;
using Local = boost::asio::local::stream_protocol;
using std::chrono::seconds;

constexpr auto kBound = seconds(20);

// Drops so many connections, proves itself on the next, and then reads nothing any more, until it
// is destroyed.
class DeafAgent {
 public:
  explicit DeafAgent(std::string secret, int drops = 0)
      : secret_(std::move(secret)), drops_(drops), acceptor_(io_, Local::endpoint(Path())) {
    thread_ = std::thread([this] { Serve(); });
  }
  ~DeafAgent() {
    over_.set_value();
    thread_.join();
    std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_ + "/agent.sock"; }

 private:
  std::string Path() {
    char name[] = "/tmp/deaf-agent-XXXXXX";
    folder_ = mkdtemp(name);
    return path();
  }

  void Serve() {
    for (int i = 0; i < drops_; ++i) {
      Local::socket dropped(io_);
      acceptor_.accept(dropped);
    }
    Local::socket socket(io_);
    acceptor_.accept(socket);
    websocket::stream<Local::socket> link(std::move(socket));
    link.binary(true);
    link.set_option(websocket::stream_base::decorator([](websocket::response_type& response) {
      response.set(boost::beast::http::field::sec_websocket_protocol,
                   boost::string_view(wire::kSubprotocol.data(), wire::kSubprotocol.size()));
    }));
    link.accept();
    const std::string nonce(wire::kNonceSize, 'n');
    agent::Control hello;
    hello.mutable_agent_hello()->set_version_min(wire::kVersion);
    hello.mutable_agent_hello()->set_version_max(wire::kVersion);
    hello.mutable_agent_hello()->set_boot_id("boot");
    hello.mutable_agent_hello()->set_nonce(nonce);
    Send(link, hello);
    boost::beast::flat_buffer buffer;
    link.read(buffer);
    const std::string message(static_cast<const char*>(buffer.data().data()), buffer.size());
    agent::Control answer;
    const auto frame = wire::ParseFrame(message);
    if (!frame.ok() || !answer.ParseFromString(std::string(frame->payload))) return;
    agent::Control proof;
    proof.mutable_agent_proof()->set_proof(
        wire::MakeProof(wire::Side::kAgent, secret_, nonce, answer.broker_hello().nonce(), "boot"));
    Send(link, proof);
    over_.get_future().wait();
  }

  static void Send(websocket::stream<Local::socket>& link, const agent::Control& control) {
    const std::string frame = wire::EncodeFrame(0, wire::Kind::kEvent, control.SerializeAsString());
    link.write(boost::asio::buffer(frame));
  }

  const std::string secret_;
  const int drops_;
  std::string folder_;
  boost::asio::io_context io_;
  Local::acceptor acceptor_;
  std::promise<void> over_;
  std::thread thread_;
};

class NativeLinkTest : public ::testing::Test {
 protected:
  NativeLinkTest() { loop_.Start(); }
  ~NativeLinkTest() override {
    loop_.Post([this] {
      if (link_) link_->Close(absl::CancelledError("the test is over"));
      link_.reset();
    });
    loop_.Stop();
  }

  void Dial(const std::string& path, const std::string& secret, link::LinkSettings settings) {
    dialer_.emplace(loop_, settings);
    std::promise<absl::Status> dialed;
    loop_.Post([&] {
      broker::DialTarget target;
      target.unix_path = path;
      target.secret = secret;
      dialer_->Dial(
          target, kBound, [this](const absl::Status& why) { lost_.set_value(why); },
          [&](absl::StatusOr<broker::AgentDialer::Dialed> result) {
            if (result.ok()) link_ = result->link;
            dialed.set_value(result.status());
          });
    });
    auto done = dialed.get_future();
    ASSERT_EQ(done.wait_for(kBound), std::future_status::ready);
    ASSERT_TRUE(done.get().ok());
  }

  Loop loop_;
  std::optional<link::NativeDialer> dialer_;
  std::shared_ptr<broker::AgentLink> link_;
  std::promise<absl::Status> lost_;
};

// A link that is cut while it is being made is no verdict on the agent.
TEST_F(NativeLinkTest, ConnectionThatBreaksBeforeTheProof_IsMadeAgain) {
  const std::string secret(wire::kSecretSize, 's');
  DeafAgent agent(secret, 3);
  Dial(agent.path(), secret, {});
  EXPECT_TRUE(link_);
}

// Whatever waits for an agent that takes nothing is bounded, whoever asks for it.
TEST_F(NativeLinkTest, AgentThatDoesNotRead_EndsTheLinkAtTheBoundOfItsQueue) {
  const std::string secret(wire::kSecretSize, 's');
  DeafAgent agent(secret);
  link::LinkSettings settings;
  settings.max_control_bytes = 256 * 1024;
  Dial(agent.path(), secret, settings);
  ASSERT_TRUE(link_);
  std::atomic<int> failed = 0;
  std::promise<bool> still_open;
  loop_.Post([&] {
    agent::Bind bind;
    bind.add_env()->set_name("A");
    bind.mutable_env(0)->set_value(std::string(100 * 1024, 'x'));
    // The kernel takes some of it; far more than its buffers and ours hold.
    for (int i = 0; i < 200; ++i) {
      link_->Bind(bind, [&](const absl::Status& status) { failed += status.ok() ? 0 : 1; });
    }
    still_open.set_value(link_->open());  // it goes once its caller has returned
  });
  EXPECT_TRUE(still_open.get_future().get());
  auto lost = lost_.get_future();
  ASSERT_EQ(lost.wait_for(kBound), std::future_status::ready);
  EXPECT_EQ(ReasonOf(lost.get()), Reason::kCapacity);
  EXPECT_EQ(failed, 200);
}

}  // namespace
}  // namespace sandbroker::testing

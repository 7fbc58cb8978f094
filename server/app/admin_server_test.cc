// The real server on a loop of its own, asked over loopback by blocking sockets.
#include "server/app/admin_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/time.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <future>

#include "lib/async/loop.h"

namespace sandbroker::app {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using testing::HasSubstr;
using testing::StartsWith;

class AdminServerTest : public testing::Test {
 protected:
  void StartWith(AdminSettings settings) {
    server_.emplace(
        loop_.context(), scope_, settings, [] { return std::string("sandbroker_x 1\n"); },
        [this] { return ready_.load(); });
    ASSERT_TRUE(server_->Open({"127.0.0.1", 0, false}).ok());
    loop_.Start();
    loop_.Post([this] { server_->Start(); });
  }

  void TearDown() override {
    auto joined = std::make_shared<std::promise<void>>();
    loop_.Post([this, joined] {
      server_->Stop();
      scope_.Join([joined] { joined->set_value(); });
    });
    joined->get_future().wait();
    loop_.Stop();
  }

  tcp::socket Connect() {
    const auto address = config::ParseAddress(server_->address());
    tcp::socket socket(client_);
    socket.connect(tcp::endpoint(asio::ip::make_address(address->host), address->port));
    const timeval bound{10, 0};  // a test that fails must not hang
    setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    return socket;
  }

  // Everything that comes until the server closes.
  static std::string ReadToEnd(tcp::socket& socket) {
    std::string all;
    boost::system::error_code error;
    asio::read(socket, asio::dynamic_buffer(all), error);
    EXPECT_NE(error, asio::error::would_block) << "the server did not close";
    return all;
  }

  std::string Ask(const std::string& request) {
    tcp::socket socket = Connect();
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(request), ignored);
    return ReadToEnd(socket);
  }

  std::string Get(const std::string& path) {
    return Ask("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  std::atomic<bool> ready_{true};
  asio::io_context client_;
  Loop loop_;
  TaskScope scope_{loop_.context(), [](auto, auto what) { ADD_FAILURE() << what; }};
  std::optional<AdminServer> server_;
};

TEST_F(AdminServerTest, Metrics_AreRenderedAsText) {
  StartWith({});
  const std::string answer = Get("/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\nsandbroker_x 1\n"));
  EXPECT_THAT(Get("/metrics?name=x"), StartsWith("HTTP/1.1 200"));
}

TEST_F(AdminServerTest, Readyz_FollowsReadiness_HealthzDoesNot) {
  StartWith({});
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200"));
  ready_ = false;
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(AdminServerTest, OtherPathsAndMethods_AreRefused) {
  StartWith({});
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get("/metricsx"), StartsWith("HTTP/1.1 404"));
  const std::string post =
      Ask("POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
  EXPECT_THAT(post, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(post, HasSubstr("Allow: GET\r\n"));
}

TEST_F(AdminServerTest, OneConnection_ServesManyRequests) {
  StartWith({});
  const std::string answers =
      Ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
          "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const size_t second = answers.find("HTTP/1.1 200", 1);
  EXPECT_NE(second, std::string::npos);
}

TEST_F(AdminServerTest, TooMuchOrGarbage_IsRefused) {
  StartWith({});
  EXPECT_THAT(Ask("GET /metrics HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Ask("\x16\x03\x01 this is TLS\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200")) << "it goes on";
}

TEST_F(AdminServerTest, SilentPeer_IsDroppedAfterItsTime) {
  StartWith({.request_bound = std::chrono::milliseconds(50)});
  tcp::socket silent = Connect();
  EXPECT_EQ(ReadToEnd(silent), "");
  tcp::socket half = Connect();
  asio::write(half, asio::buffer(std::string("GET /metrics HT")));
  EXPECT_EQ(ReadToEnd(half), "");
}

TEST_F(AdminServerTest, ConnectionsBeyondTheLimit_AreClosed) {
  StartWith({.max_connections = 2});
  std::vector<tcp::socket> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(Connect());
    // An answer proves that the server counts this connection.
    asio::write(held.back(), asio::buffer(std::string("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")));
    char first = 0;
    asio::read(held.back(), asio::buffer(&first, 1));
  }
  tcp::socket third = Connect();
  EXPECT_EQ(ReadToEnd(third), "");
}

TEST_F(AdminServerTest, AddressInUse_IsAnError) {
  StartWith({});
  const auto taken = config::ParseAddress(server_->address());
  AdminServer second(
      loop_.context(), scope_, {}, [] { return std::string(); }, [] { return true; });
  EXPECT_FALSE(second.Open(*taken).ok());
}

}  // namespace
}  // namespace sandbroker::app

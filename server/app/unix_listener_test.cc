#include "server/app/unix_listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "lib/async/loop.h"
#include "lib/base/status.h"

namespace sandbroker::app {
namespace {

using Protocol = boost::asio::local::stream_protocol;
using testing::HasSubstr;

class UnixListenerTest : public testing::Test {
 protected:
  UnixListenerTest() {
    std::string made = testing::TempDir() + "unix_XXXXXX";
    root_ = mkdtemp(made.data());
    path_ = root_ + "/socket";
  }

  ~UnixListenerTest() override {
    if (started_) {
      auto joined = std::make_shared<std::promise<void>>();
      loop_.Post([this, joined] {
        listener_.Stop();
        scope_.Join([joined] { joined->set_value(); });
      });
      joined->get_future().wait();
    }
    loop_.Stop();
    std::filesystem::remove_all(root_);
  }

  void Start() {
    started_ = true;
    loop_.Start();
    loop_.Post([this] { listener_.Start(); });
  }

  bool started_ = false;
  std::string root_;
  std::string path_;
  std::promise<UniqueFd> adopted_;
  Loop loop_;
  TaskScope scope_{loop_.context(), [](auto, auto what) { ADD_FAILURE() << what; }};
  UnixListener listener_{loop_.context(), scope_,
                         [this](UniqueFd fd) { adopted_.set_value(std::move(fd)); }};
};

TEST_F(UnixListenerTest, PeerWithOurUid_IsHandedOverNonBlocking) {
  ASSERT_TRUE(listener_.Open(path_).ok());
  Start();
  boost::asio::io_context context;
  Protocol::socket client(context);
  client.connect(Protocol::endpoint(path_));
  auto future = adopted_.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  const UniqueFd fd = future.get();
  EXPECT_NE(fcntl(fd.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(UnixListenerTest, Socket_IsOursAloneAndGoneAfterwards) {
  ASSERT_TRUE(listener_.Open(path_).ok());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  listener_.Stop();
  EXPECT_NE(stat(path_.c_str(), &info), 0);
}

TEST_F(UnixListenerTest, SocketOfADeadBroker_IsReplaced) {
  {
    boost::asio::io_context context;
    Protocol::acceptor dead(context, Protocol::endpoint(path_));
  }
  EXPECT_TRUE(listener_.Open(path_).ok());
}

TEST_F(UnixListenerTest, SocketThatAnswers_IsLeftAlone) {
  boost::asio::io_context context;
  Protocol::acceptor living(context, Protocol::endpoint(path_));
  const absl::Status status = listener_.Open(path_);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("another process listens there"));
  Protocol::socket client(context);
  client.connect(Protocol::endpoint(path_));
}

TEST_F(UnixListenerTest, OtherFileInTheWay_IsLeftAlone) {
  std::ofstream(path_) << "precious";
  EXPECT_THAT(std::string(MessageOf(listener_.Open(path_))), HasSubstr("no socket"));
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixListenerTest, MissingFolder_IsAnError) {
  EXPECT_THAT(std::string(MessageOf(listener_.Open(root_ + "/none/socket"))),
              HasSubstr("No such file"));
}

}  // namespace
}  // namespace sandbroker::app

// The client against a fake broker on loopback: leases, unary calls and errors.
#include "sandbroker/client/client.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "client/testing/fake_broker.h"

namespace sandbroker::client {
namespace {

using testing::FakeBroker;
using testing::FakeRecord;

class ClientTest : public ::testing::Test {
 protected:
  FakeBroker broker_;
  Client client_ = *Client::Connect(broker_.address());
};

TEST_F(ClientTest, Lease_OutOfScope_IsReleased) {
  std::string id;
  {
    absl::StatusOr<SandboxLease> lease = client_.Acquire({.labels = {{"team", "a"}}});
    ASSERT_TRUE(lease.ok()) << lease.status();
    id = lease->id();
    EXPECT_EQ(lease->acquired().source(), v1::ACQUIRE_SOURCE_WARM);
    EXPECT_TRUE(broker_.record().released.empty());
  }
  EXPECT_EQ(broker_.record().released, std::vector<std::string>{id});
}

TEST_F(ClientTest, Lease_Moved_IsReleasedOnce) {
  {
    SandboxLease first = *client_.Acquire();
    SandboxLease second = std::move(first);
    SandboxLease third = *client_.Acquire();
    third = std::move(second);
    EXPECT_EQ(broker_.record().released, std::vector<std::string>{"sb1_fake2"});
  }
  EXPECT_EQ(broker_.record().released, (std::vector<std::string>{"sb1_fake2", "sb1_fake1"}));
}

TEST_F(ClientTest, Lease_DetachedOrReleased_IsLeftAlone) {
  {
    SandboxLease kept = *client_.Acquire();
    EXPECT_EQ(kept.Detach(), "sb1_fake1");
    SandboxLease released = *client_.Acquire();
    EXPECT_TRUE(released.Release().ok());
  }
  EXPECT_EQ(broker_.record().released, std::vector<std::string>{"sb1_fake2"});
}

TEST_F(ClientTest, Lease_OutlivesTheClientItCameFrom) {
  absl::StatusOr<SandboxLease> lease = [this] {
    Client other = *Client::Connect(broker_.address());
    return other.Acquire();
  }();
  EXPECT_TRUE(lease->Run({.argv = {"true"}}).ok());
}

TEST_F(ClientTest, Acquire_FromADryPool_FailsWithReasonAndRetry) {
  const absl::Status status = client_.Acquire({.pool = "dry"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const Error error = ErrorOf(status);
  EXPECT_EQ(error.reason, "POOL_EXHAUSTED");
  EXPECT_EQ(error.domain, "sandbroker.dev");
  EXPECT_EQ(error.metadata.at("pool"), "dry");
  EXPECT_EQ(error.retry_after, std::chrono::seconds(2));
}

TEST_F(ClientTest, Acquire_Stopped_IsCancelledAtTheServerToo) {
  std::stop_source stop;
  std::jthread stopper([&] {
    broker_.WaitFor([](const FakeRecord& record) { return !record.acquires.empty(); });
    stop.request_stop();
  });
  EXPECT_EQ(client_.Acquire({.pool = "slow"}, {.stop = stop.get_token()}).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_TRUE(broker_.WaitFor([](const FakeRecord& record) { return record.given_up == 1; }));
}

TEST_F(ClientTest, Run_NonZeroCode_IsNoError) {
  const absl::StatusOr<v1::RunResponse> response =
      client_.Run("sb1_x", {.argv = {"f"}}, {.input = std::string("\0\xff", 2)});
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->ended().exited().code(), 3);
  EXPECT_EQ(response->stdout(), std::string("\0\xff", 2));
  EXPECT_FALSE(response->execution_id().empty());
}

TEST_F(ClientTest, Watch_TellsEachEventAndWhatEndedIt) {
  std::vector<int> kinds;
  const absl::Status status = client_.Watch("", [&](const v1::WatchSandboxesResponse& event) {
    kinds.push_back(event.event_case());
    return true;
  });
  using Event = v1::WatchSandboxesResponse;
  EXPECT_EQ(kinds, (std::vector<int>{Event::kAdded, Event::kSynced, Event::kRemoved}));
  EXPECT_EQ(ErrorOf(status).reason, "SERVER_DRAINING");
}

TEST_F(ClientTest, Watch_EndsWhenItsCallerHasSeenEnoughOrStops) {
  const auto until_removed = [](const v1::WatchSandboxesResponse& event) {
    return !event.has_removed();
  };
  EXPECT_TRUE(client_.Watch("wait", until_removed).ok());
  std::stop_source stop;
  const auto stopping = [&](const v1::WatchSandboxesResponse& event) {
    if (event.has_removed()) stop.request_stop();
    return true;
  };
  CallOptions call;
  call.stop = stop.get_token();
  EXPECT_EQ(client_.Watch("wait", stopping, call).code(), absl::StatusCode::kCancelled);
}

TEST_F(ClientTest, List_ReadsAllPages) {
  const absl::StatusOr<std::vector<v1::Sandbox>> sandboxes = client_.List();
  ASSERT_TRUE(sandboxes.ok());
  ASSERT_EQ(sandboxes->size(), 2u);
  EXPECT_EQ((*sandboxes)[1].sandbox_id(), "sb1_two");
}

TEST_F(ClientTest, Renew_OfALease_TurnsItsItemIntoAStatus) {
  SandboxLease first = *client_.Acquire();
  EXPECT_EQ(first.Renew()->remaining().seconds(), 600);
  SandboxLease second = *client_.Acquire();
  const absl::Status status = second.Renew().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorOf(status).reason, "LEASE_EXPIRED");
}

TEST_F(ClientTest, Connect_ToNobody_FailsSoonAndNamesTheAddress) {
  const std::string path = "unix:/nonexistent/" + std::to_string(getpid());
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = Client::Connect(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(path), std::string::npos) << status;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

TEST_F(ClientTest, Connect_ToAListenerThatNeverSpeaks_IsBounded) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const absl::Status status =
      Client::Connect("127.0.0.1:" + std::to_string(ntohs(address.sin_port)),
                      {.connect_timeout = std::chrono::milliseconds(200)})
          .status();
  close(listener);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

}  // namespace
}  // namespace sandbroker::client

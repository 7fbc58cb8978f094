// The broker's dialer and link over TLS in a loop of their own, and executions over it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/link/native_dialer.h"
#include "tests/support/agent_process.h"
#include "tests/support/raw_link_client.h"

namespace sandbroker::test {

inline constexpr auto kBound = std::chrono::seconds(30);

using Dialed = absl::StatusOr<std::shared_ptr<broker::AgentLink>>;

// One execution over a link, with its input given and its output kept. Loop thread only, but for
// what the test does before and after.
class TestRun : public broker::AgentStreamHandler {
 public:
  static constexpr uint64_t kWindow = 1 << 20;

  std::string input;
  bool ends_input = true;  // once it is given
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
    if (sent_ < input.size() || !ends_input || std::exchange(closed_, true)) return;
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
  void Finish(TestRun* run, broker::AgentLink& link, const agent::Open& open) {
    OnLoop([&] { run->Start(link, open); });
    Await(run);
    OnLoop([&] { run->Drop(); });
  }
  void Await(TestRun* run) {
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

}  // namespace sandbroker::test

// Many Exec calls at once: on one channel, and cancelled at every moment.
#include <gtest/gtest.h>

#include <thread>

#include "lib/base/strings.h"
#include "tests/support/exec_fixture.h"

namespace sandbroker::testing {
namespace {

TEST_F(ExecTest, T130_FiveHundredExecsOnOneChannel_AllRun) {
  constexpr int kCalls = 500;
  OnOpen([](const auto& stream) { stream->SayReady(); });
  const std::string sandbox = Acquire();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kCalls; ++i) clients.push_back(Open(StartOf(sandbox)));
  for (const auto& client : clients) {
    ASSERT_TRUE(client->Read());  // all of them are ready while all of them are open
    ASSERT_TRUE(client->event.has_ready());
  }
  OnLoop([&] {
    const auto& streams = backend_.only_link()->streams();
    ASSERT_EQ(streams.size(), static_cast<size_t>(kCalls));
    for (size_t i = 0; i < streams.size(); ++i) {
      streams[i]->Print(1, StrCat("call ", i));
      streams[i]->Exit(static_cast<int>(i % 256));
    }
  });
  for (const auto& client : clients) {
    ASSERT_TRUE(client->Read());
    const std::string output = client->event.output().data();
    ASSERT_TRUE(client->Read());
    EXPECT_EQ(output, StrCat("call ", std::stoi(output.substr(5))));
    EXPECT_EQ(client->event.ended().exited().code(), std::stoi(output.substr(5)) % 256);
    EXPECT_TRUE(client->stream->Finish().ok());
  }
}

TEST_F(ExecTest, T131_CancellationStorm_FinishesEveryCall) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 150;
  OnOpen([](const auto& stream) {
    stream->SayReady();
    PrintAll(stream, 1 << 20);
  });
  const std::string sandbox = Acquire();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, &sandbox, t] {
      const auto stub = NewStub();
      for (int i = 0; i < kRounds; ++i) {
        auto client = Open(StartOf(sandbox, true), stub.get());
        // How far the call gets differs: not at all, sent, ready, some output.
        for (int events = (i + t) % 4; events > 0 && client->Read(); --events) {
        }
        if (i % 3 == 0) client->stream->Write(Input("x", true));
        client->context.TryCancel();
        client->stream->Finish();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] {
    for (const auto& stream : backend_.only_link()->streams()) {
      if (!stream->left()) return false;
    }
    return true;
  }));
  // Every call was finished: otherwise the server could not stop before the deadline.
  EXPECT_LT(Shutdown(std::chrono::seconds(20)), std::chrono::seconds(10));
}

}  // namespace
}  // namespace sandbroker::testing

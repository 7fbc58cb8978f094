// Executions against a fake broker on loopback: events, input, signals and every way to lose one.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "client/testing/fake_broker.h"
#include "sandbroker/client/client.h"

namespace sandbroker::client {
namespace {

using testing::FakeBroker;
using testing::FakeRecord;

class ExecTest : public ::testing::Test {
 protected:
  Execution Exec(std::vector<std::string> argv, const ExecOptions& options = {}) {
    return client_.Exec("sb1_x", {.argv = std::move(argv)}, options);
  }
  static constexpr ExecOptions kWithInput = {.input = Stdin::kPipe};

  FakeBroker broker_;
  Client client_ = *Client::Connect(broker_.address());
};

struct Seen {
  std::string out;
  std::vector<Event::EventCase> kinds;
  absl::Status status;
};

Seen ReadAll(Execution& execution) {
  Seen seen;
  while (true) {
    absl::StatusOr<std::optional<Event>> event = execution.Next();
    if (!event.ok()) {
      seen.status = event.status();
      return seen;
    }
    if (!event->has_value()) return seen;
    seen.kinds.push_back((*event)->event_case());
    if ((*event)->has_output()) seen.out += (*event)->output().data();
  }
}

TEST_F(ExecTest, Pull_EventsComeInOrderAndEndedOnce) {
  Execution execution = Exec({"twice"});
  const Seen seen = ReadAll(execution);
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.kinds, (std::vector{Event::kReady, Event::kEnded}));
  const absl::StatusOr<std::optional<Event>> after = execution.Next();
  ASSERT_TRUE(after.ok());
  EXPECT_FALSE(after->has_value());
  EXPECT_EQ(execution.Wait()->exited().code(), 0);
}

TEST_F(ExecTest, Callbacks_SeeTheSameAndDoneOnce) {
  std::vector<Event::EventCase> kinds;
  std::promise<absl::StatusOr<v1::ExecEnded>> done;
  Execution execution =
      client_.Exec("sb1_x", {.argv = {"print", "hi"}}, {},
                   {.on_event = [&](const Event& event) { kinds.push_back(event.event_case()); },
                    .on_done = [&](absl::StatusOr<v1::ExecEnded> end) { done.set_value(end); }});
  const absl::StatusOr<v1::ExecEnded> end = done.get_future().get();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->exited().code(), 0);
  EXPECT_EQ(kinds, (std::vector{Event::kReady, Event::kOutput, Event::kEnded}));
  EXPECT_EQ(execution.Next().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ExecTest, Callbacks_DestroyedFromWithin_DoesNotHang) {
  std::promise<void> done;
  auto* execution = new Execution(
      client_.Exec("sb1_x", {.argv = {"exit", "1"}}, {},
                   {.on_done = [&](const absl::StatusOr<v1::ExecEnded>&) { done.set_value(); }}));
  done.get_future().wait();
  delete execution;
  std::promise<Execution*> handle;
  std::promise<void> ready;
  std::shared_future<Execution*> own = handle.get_future().share();
  handle.set_value(new Execution(
      client_.Exec("sb1_x", {.argv = {"wait"}}, {}, {.on_event = [&](const Event& event) {
                     if (event.has_ready()) {
                       delete own.get();
                       ready.set_value();
                     }
                   }})));
  ready.get_future().wait();
  EXPECT_TRUE(broker_.WaitFor([](const FakeRecord& record) { return record.abandoned == 1; }));
}

TEST_F(ExecTest, CallWithoutEnded_IsAnErrorAndNoResult) {
  Execution vanished = Exec({"vanish"});
  EXPECT_EQ(vanished.Wait().status().code(), absl::StatusCode::kUnknown);
  Execution dropped = Exec({"drop"});
  EXPECT_EQ(dropped.Wait().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(dropped.Next().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ExecTest, Refused_CarriesTheReason) {
  Execution execution = Exec({"refuse"});
  const absl::Status status = execution.Next().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorOf(status).reason, "SANDBOX_NOT_FOUND");
  EXPECT_FALSE(execution.Signal(15).ok());
}

TEST_F(ExecTest, SignaledEnd_CarriesItsNumber) {
  Execution execution = Exec({"die", "9"});
  EXPECT_EQ(execution.Wait()->signaled().number(), 9);
}

// T45: what is written before the program is ready is not lost. T140: nor is any byte changed.
TEST_F(ExecTest, T45a_InputWrittenAtOnce_ArrivesWholeThroughASmallWindow) {
  std::string input(3 * 1024 * 1024 + 17, '\0');
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<char>(i * 31 >> 3);
  Execution execution = Exec({"cat"}, kWithInput);
  std::thread writer([&] {
    EXPECT_TRUE(execution.WriteStdin(input).ok());
    EXPECT_TRUE(execution.CloseStdin().ok());
    EXPECT_TRUE(execution.CloseStdin().ok());
  });
  const Seen seen = ReadAll(execution);
  writer.join();
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_TRUE(seen.out == input);
  uint64_t offset = 0;
  int ends = 0;
  for (const v1::ExecRequest& message : broker_.record().messages) {
    EXPECT_EQ(message.stdin().offset(), offset);
    offset += message.stdin().data().size();
    ends += message.stdin().eof() ? 1 : 0;
  }
  EXPECT_EQ(offset, input.size());
  EXPECT_EQ(ends, 1);
}

TEST_F(ExecTest, Signal_OvertakesInputNobodyReads) {
  Execution execution = Exec({"ignore-input"}, kWithInput);
  absl::Status written;
  std::thread writer([&] { written = execution.WriteStdin(std::string(1024 * 1024, 'x')); });
  EXPECT_TRUE(broker_.WaitFor([](const FakeRecord& record) { return !record.messages.empty(); }));
  ASSERT_TRUE(execution.Signal(12).ok());
  EXPECT_EQ(execution.Wait()->exited().code(), 12);
  writer.join();
  EXPECT_EQ(written.code(), absl::StatusCode::kFailedPrecondition);
  uint64_t bytes = 0;
  for (const v1::ExecRequest& message : broker_.record().messages) {
    bytes += message.stdin().data().size();
  }
  EXPECT_EQ(bytes, 8u);
}

TEST_F(ExecTest, Input_ToAProgramThatClosedIt_IsRefused) {
  Execution execution = Exec({"closed-input"}, kWithInput);
  while (true) {
    absl::StatusOr<std::optional<Event>> event = execution.Next();
    ASSERT_TRUE(event.ok() && event->has_value());
    if ((*event)->has_input_closed()) break;
  }
  EXPECT_EQ(execution.WriteStdin("x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(execution.CloseStdin().ok());
  EXPECT_TRUE(execution.Signal(1).ok());
  EXPECT_EQ(execution.Wait()->exited().code(), 0);
}

TEST_F(ExecTest, Cancel_IsSentWithItsGrace) {
  Execution execution = Exec({"wait"});
  ASSERT_TRUE(execution.Cancel(std::chrono::seconds(2)).ok());
  EXPECT_TRUE(execution.Wait()->has_cancelled());
  EXPECT_EQ(broker_.record().messages.back().cancel().kill_grace().seconds(), 2);
}

TEST_F(ExecTest, Destroyed_OnlyLeavesTheProgram) {
  { Execution execution = Exec({"wait"}); }
  // Nothing but the end of the call: no signal, no cancel.
  { Execution execution = Exec({"flood", "1000"}); }
  Execution execution = Exec({"wait"});
  EXPECT_TRUE(execution.Next().ok());
  execution.Detach();
  EXPECT_TRUE(broker_.WaitFor([](const FakeRecord& record) { return record.abandoned >= 1; }));
  EXPECT_TRUE(broker_.record().messages.empty());
  EXPECT_EQ(execution.Wait().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ExecTest, Deadline_OnlyEndsTheCall) {
  Execution execution = Exec({"wait"}, {.deadline = std::chrono::milliseconds(100)});
  EXPECT_EQ(execution.Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(broker_.record().messages.empty());
}

// A caller that does not read yet holds at most the read-ahead, and loses nothing.
TEST_F(ExecTest, SlowReader_GetsEveryByte) {
  Execution execution = Exec({"flood", "200"});
  const Seen seen = ReadAll(execution);
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.out.size(), 200u * 64 * 1024);
}

// T130: 500 streams on one connection, none of which waits for another's end. The fake keeps a
// thread for each; the real server is asked the same in the e2e tier.
TEST_F(ExecTest, T130a_FiveHundredExecutionsOnOneClient_RunSideBySide) {
  constexpr int kCount = 500;
  std::vector<Execution> executions;
  for (int i = 0; i < kCount; ++i) executions.push_back(Exec({"wait"}));
  EXPECT_TRUE(broker_.WaitFor([](const FakeRecord& record) {
    return record.starts.size() == static_cast<size_t>(kCount);
  }));
  for (Execution& execution : executions) ASSERT_TRUE(execution.Signal(15).ok());
  for (Execution& execution : executions) EXPECT_EQ(execution.Wait()->signaled().number(), 15);
}

}  // namespace
}  // namespace sandbroker::client

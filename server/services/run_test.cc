// Run through a real server: ends, caps, input, and what becomes of the program of a caller that
// goes away.
#include <gtest/gtest.h>

#include <future>

#include "server/services/limits.h"
#include "tests/support/service_fixture.h"

namespace sandbroker::testing {
namespace {

class RunTest : public ServiceFixture {
 protected:
  grpc::Status Run(const v1::RunRequest& request, v1::RunResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return stub_->Run(&context, request, response);
  }
  std::shared_ptr<FakeStream> OnlyStream() {
    const auto link = backend_.only_link();
    return link == nullptr || link->streams().empty() ? nullptr : link->streams().front();
  }
  // Starts a Run that stays, cancels it, and waits until its program was left.
  std::shared_ptr<FakeStream> CancelRun(const v1::RunRequest& request) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::RunResponse response;
    auto call =
        std::async(std::launch::async, [&] { return stub_->Run(&context, request, &response); });
    EXPECT_TRUE(Eventually([&] { return OnlyStream() != nullptr; }));
    context.TryCancel();
    EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(Eventually([&] { return OnlyStream()->left(); }));
    return OnlyStream();
  }
};

TEST_F(RunTest, OutputsAndEnd_ComeBack) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    stream->Print(1, "out");
    stream->Print(2, "err");
    stream->Exit(3);
  });
  v1::RunResponse response;
  const grpc::Status status = Run(RunOf(Acquire()), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.stdout(), "out");
  EXPECT_EQ(response.stderr(), "err");
  EXPECT_EQ(response.ended().exited().code(), 3);
  EXPECT_TRUE(response.ended().output_complete());
  EXPECT_FALSE(response.execution_id().empty());
  EXPECT_EQ(response.stdout_cut(), 0u);
}

TEST_F(RunTest, OutputBeyondTheCap_IsCountedAndNeverHoldsTheProgramBack) {
  constexpr uint64_t kTotal = 8 << 20;
  OnOpen([](const auto& stream) {
    stream->SayReady();
    auto* agent = stream.get();
    agent->on_credit = [agent] {
      const std::string piece(64 * 1024, 'x');
      while (agent->printed() < kTotal && agent->credit() >= piece.size()) agent->Print(1, piece);
      if (agent->printed() >= kTotal) agent->Exit(0);
    };
    agent->Print(2, "e");
  });
  auto request = RunOf(Acquire());
  request.set_output_cap(1000);
  v1::RunResponse response;
  ASSERT_TRUE(Run(request, &response).ok());
  EXPECT_EQ(response.stdout(), std::string(1000, 'x'));
  EXPECT_EQ(response.stderr(), "e");
  EXPECT_EQ(response.stdout_cut() + 1000 + 1, response.ended().final_offset());
}

TEST_F(RunTest, Input_IsWrittenWholeAndClosed) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    auto* agent = stream.get();
    agent->on_input = [agent] {
      if (agent->input().size() < services::kMaxStdinBytes) agent->GiveInputRoom(4096);
    };
    agent->on_command = [agent](const agent::Command& command) {
      if (!command.has_close_input()) return;
      EXPECT_EQ(command.close_input().offset(), services::kMaxStdinBytes);
      agent->Print(1, std::to_string(agent->input().size()));
      agent->Exit(0);
    };
    agent->GiveInputRoom(4096);
  });
  auto request = RunOf(Acquire());
  request.set_stdin(std::string(services::kMaxStdinBytes, 'i'));
  v1::RunResponse response;
  ASSERT_TRUE(Run(request, &response).ok());
  EXPECT_EQ(response.stdout(), std::to_string(services::kMaxStdinBytes));
}

TEST_F(RunTest, T118_HugeArgument_ArrivesAsItIs) {
  const std::string huge = "\n'$(x)'" + std::string(4'000'000, 'a');
  OnOpen([huge](const auto& stream) {
    stream->SayReady();
    stream->Exit(stream->start().argv(1) == huge ? 0 : 1);
  });
  auto request = RunOf(Acquire());
  request.mutable_spec()->add_argv(huge);
  v1::RunResponse response;
  const grpc::Status status = Run(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.ended().exited().code(), 0);
  // Above the contract's limit the field is named; nothing is started.
  request.mutable_spec()->add_argv(std::string(400'000, 'a'));
  EXPECT_EQ(ErrorOf(Run(request, &response)).field, "spec.argv");
}

TEST_F(RunTest, StartFailure_IsAnEndAndNotAnError) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    agent::Ended ended;
    ended.mutable_start_failed()->set_error_number(2);
    stream->End(ended);
  });
  v1::RunResponse response;
  ASSERT_TRUE(Run(RunOf(Acquire()), &response).ok());
  EXPECT_EQ(response.ended().start_failed().error_number(), 2);
}

TEST_F(RunTest, Gap_MakesTheOutputIncomplete) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    stream->Gap(100);
    stream->Print(1, "tail");
    stream->Exit(0);
  });
  v1::RunResponse response;
  ASSERT_TRUE(Run(RunOf(Acquire()), &response).ok());
  EXPECT_FALSE(response.ended().output_complete());
}

TEST_F(RunTest, RefusedByTheAgent_HasItsReason) {
  OnOpen([](const auto& stream) { stream->Reset("EXECUTION_ID_REUSED", "another spec"); });
  v1::RunResponse response;
  const grpc::Status status = Run(RunOf(Acquire()), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ErrorOf(status).reason, "EXECUTION_ID_REUSED");
}

TEST_F(RunTest, SandboxLost_EndsAsAgentLostAndNeverAsACode) {
  OnOpen([this](const auto& stream) {
    stream->SayReady();
    backend_.Kill("uid-1", "killed");
  });
  v1::RunResponse response;
  ASSERT_TRUE(Run(RunOf(Acquire()), &response).ok());
  EXPECT_EQ(response.ended().agent_lost().detail(), "killed");
  EXPECT_FALSE(response.ended().output_complete());
}

TEST_F(RunTest, CancelWithoutId_CancelsTheProgram) {
  auto request = RunOf(Acquire());
  request.mutable_spec()->mutable_kill_grace()->set_seconds(2);
  const auto stream = CancelRun(request);
  OnLoop([&] {
    ASSERT_FALSE(stream->commands().empty());
    EXPECT_EQ(stream->commands()[0].cancel().by(), "caller");
    EXPECT_EQ(stream->commands()[0].cancel().kill_grace_ns(), 2'000'000'000);
  });
}

TEST_F(RunTest, CancelWithId_LeavesTheProgramRunning) {
  auto request = RunOf(Acquire());
  request.set_execution_id("mine");
  const auto stream = CancelRun(request);
  OnLoop([&] { EXPECT_TRUE(stream->commands().empty()); });
}

TEST_F(RunTest, CancelledButItAlsoEnded_AnswersOnce) {
  OnOpen([](const auto& stream) { stream->SayReady(); });
  const auto request = RunOf(Acquire());
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::RunResponse response;
    auto call =
        std::async(std::launch::async, [&] { return stub_->Run(&context, request, &response); });
    ASSERT_TRUE(Eventually(
        [&] { return backend_.only_link()->streams().size() == static_cast<size_t>(i) + 1; }));
    loop_.Post([this] { backend_.only_link()->streams().back()->Exit(0); });
    context.TryCancel();
    const grpc::Status status = call.get();
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Eventually([&] { return backend_.only_link()->streams().back()->left(); }));
}

}  // namespace
}  // namespace sandbroker::testing

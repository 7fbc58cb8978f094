// Exec through a real server: order of events, input, flow control, and every way a call ends.
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <thread>

#include "lib/base/strings.h"
#include "server/services/limits.h"
#include "tests/support/exec_fixture.h"

namespace sandbroker::testing {
namespace {

services::ServiceSettings Settings(Duration heartbeat) {
  services::ServiceSettings settings;
  settings.heartbeat_interval = heartbeat;
  return settings;
}

v1::ExecRequest SignalOf(int number) {
  v1::ExecRequest request;
  request.mutable_signal()->set_number(number);
  return request;
}

TEST_F(ExecTest, ReadyOutputEnded_ComeInOrderAndThenOk) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    stream->Print(1, "out");
    stream->Print(2, "err");
    stream->Gap(10);
    stream->Print(2, "more");
    agent::Event warning;
    warning.mutable_warning()->set_reason("LEASE_ENDING");
    stream->Say(warning);
    stream->Exit(7);
  });
  auto client = Open(StartOf(Acquire()));
  ASSERT_TRUE(client->Read());
  EXPECT_TRUE(client->event.has_ready());
  EXPECT_EQ(client->event.ready().incarnation(), "boot-1");
  ASSERT_TRUE(client->Read());
  EXPECT_EQ(client->event.output().data(), "out");
  EXPECT_EQ(client->event.output().stream(), v1::OUTPUT_STREAM_STDOUT);
  ASSERT_TRUE(client->Read());
  EXPECT_EQ(client->event.output().data(), "err");
  EXPECT_EQ(client->event.output().offset(), 3u);
  ASSERT_TRUE(client->Read());
  EXPECT_EQ(client->event.gap().from_offset(), 6u);
  EXPECT_EQ(client->event.gap().to_offset(), 16u);
  ASSERT_TRUE(client->Read());
  EXPECT_EQ(client->event.output().offset(), 16u);
  ASSERT_TRUE(client->Read());
  EXPECT_EQ(client->event.warning().reason(), "LEASE_ENDING");
  ASSERT_TRUE(client->Read());
  EXPECT_EQ(client->event.ended().exited().code(), 7);
  EXPECT_FALSE(client->Read());
  EXPECT_TRUE(client->stream->Finish().ok());
}

TEST_F(ExecTest, BulkOutput_ArrivesWholeWithOffsets) {
  constexpr uint64_t kTotal = 32 << 20;
  OnOpen([](const auto& stream) {
    stream->SayReady();
    PrintAll(stream, kTotal);
  });
  auto client = Open(StartOf(Acquire()));
  uint64_t next = 0;
  while (client->Read() && !client->event.has_ended()) {
    if (!client->event.has_output()) continue;
    const v1::ExecOutput& output = client->event.output();
    ASSERT_EQ(output.offset(), next);
    ASSERT_LE(output.data().size(), services::kMaxOutputChunkBytes);
    for (size_t i = 0; i < output.data().size(); i += kPiece) {
      ASSERT_EQ(output.data()[i], static_cast<char>('a' + (next + i) / kPiece % 26));
    }
    next += output.data().size();
  }
  EXPECT_EQ(next, kTotal);
  EXPECT_EQ(client->event.ended().final_offset(), kTotal);
  EXPECT_TRUE(client->stream->Finish().ok());
}

TEST_F(ExecTest, WrongMessages_AreNamedAndLeaveTheProgramAlone) {
  OnOpen([](const auto& stream) { stream->SayReady(); });
  const std::string sandbox = Acquire();
  EXPECT_EQ(Fails({Input("x")}).field, "start");
  EXPECT_EQ(Fails({v1::ExecRequest()}).field, "message");
  EXPECT_EQ(Fails({StartOf(sandbox), StartOf(sandbox)}).field, "start");
  EXPECT_EQ(Fails({StartOf(sandbox), Input("x")}).field, "stdin");
  EXPECT_EQ(Fails({StartOf(sandbox), SignalOf(65)}).field, "signal.number");
  EXPECT_EQ(Fails({StartOf(sandbox, true), Input(std::string((1 << 20) + 1, 'x'))}).field,
            "stdin.data");
  auto bad = StartOf(sandbox);
  bad.mutable_start()->mutable_spec()->mutable_timeout()->set_seconds(0);
  EXPECT_EQ(Fails({bad}).field, "start.spec.timeout");
  EXPECT_EQ(Fails({StartOf("forged")}).reason, "SANDBOX_NOT_FOUND");
  OnLoop([&] {
    for (const auto& stream : backend_.only_link()->streams()) {
      EXPECT_TRUE(stream->left());
      EXPECT_TRUE(stream->commands().empty());
    }
  });
}

TEST_F(ExecTest, ClosedWithoutAStart_IsRefused) {
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto stream = stub_->Exec(&context);
  stream->WritesDone();
  EXPECT_EQ(ErrorOf(stream->Finish()).field, "start");
}

TEST_F(ExecTest, Garbage_IsRefused) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  SetDeadline(&context);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, "/sandbroker.v1.SandboxBroker/Exec", &queue);
  const auto wait = [&] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  };
  call->StartCall(nullptr);
  wait();
  const grpc::Slice slice(std::string("\xff\xff\xff\xff"));
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  wait();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  EXPECT_EQ(ErrorOf(status).field, "message");
}

TEST_F(ExecTest, T45_InputBeforeReady_IsKept) {
  auto client = Open(StartOf(Acquire(), true));
  client->stream->Write(Input("early"));
  client->stream->Write(Input(" bird", true));
  ASSERT_TRUE(Eventually([&] { return OnlyStream() != nullptr; }));
  OnLoop([&] {
    OnlyStream()->SayReady();
    OnlyStream()->GiveInputRoom(1000);
  });
  EXPECT_TRUE(Eventually([&] { return OnlyStream()->input_ended(); }));
  OnLoop([&] {
    EXPECT_EQ(OnlyStream()->input(), "early bird");
    OnlyStream()->Exit(0);
  });
  while (client->Read()) {
  }
  EXPECT_TRUE(client->stream->Finish().ok());
}

TEST_F(ExecTest, T44_EndOfInput_IsAFlagAndASecondOneIsHarmless) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    stream->GiveInputRoom(1000);
  });
  auto client = Open(StartOf(Acquire(), true));
  client->stream->Write(Input("a", true));
  client->stream->Write(Input("", true));
  client->stream->Write(SignalOf(10));
  EXPECT_TRUE(Eventually([&] {
    return OnlyStream() && !OnlyStream()->commands().empty() &&
           OnlyStream()->commands().back().has_signal();
  }));
  OnLoop([&] { OnlyStream()->Exit(0); });
  while (client->Read()) {
  }
  EXPECT_TRUE(client->stream->Finish().ok());
}

TEST_F(ExecTest, HalfClose_IsNeitherEndOfInputNorDetach) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    stream->GiveInputRoom(1000);
  });
  auto client = Open(StartOf(Acquire(), true));
  client->stream->Write(Input("a"));
  client->stream->WritesDone();
  EXPECT_TRUE(Eventually([&] { return OnlyStream() && OnlyStream()->input() == "a"; }));
  OnLoop([&] {
    EXPECT_FALSE(OnlyStream()->input_ended());
    EXPECT_FALSE(OnlyStream()->left());
    OnlyStream()->Exit(0);
  });
  while (client->Read()) {
  }
  EXPECT_TRUE(client->event.has_ended());
  EXPECT_TRUE(client->stream->Finish().ok());
}

TEST_F(ExecTest, InputBeyondTheRoom_WaitsAndSoDoesWhatFollowsIt) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    stream->GiveInputRoom(10);
  });
  auto client = Open(StartOf(Acquire(), true));
  client->stream->Write(Input(std::string(30, 'x')));
  client->stream->Write(SignalOf(10));
  ASSERT_TRUE(Eventually([&] { return OnlyStream() && OnlyStream()->input().size() == 10; }));
  OnLoop([&] {
    EXPECT_TRUE(OnlyStream()->commands().empty());
    OnlyStream()->GiveInputRoom(20);
  });
  EXPECT_TRUE(Eventually([&] { return OnlyStream()->commands().size() == 1; }));
  OnLoop([&] { EXPECT_EQ(OnlyStream()->input().size(), 30u); });
}

TEST_F(ExecTest, SignalAndCancel_ReachTheProgram) {
  OnOpen([](const auto& stream) { stream->SayReady(); });
  auto start = StartOf(Acquire());
  start.mutable_start()->mutable_spec()->mutable_kill_grace()->set_seconds(3);
  auto client = Open(start);
  client->stream->Write(SignalOf(15));
  v1::ExecRequest cancel;
  cancel.mutable_cancel();
  client->stream->Write(cancel);
  cancel.mutable_cancel()->mutable_kill_grace();
  client->stream->Write(cancel);
  ASSERT_TRUE(Eventually([&] { return OnlyStream() && OnlyStream()->commands().size() == 3; }));
  OnLoop([&] {
    const auto& commands = OnlyStream()->commands();
    EXPECT_EQ(commands[0].signal().number(), 15);
    EXPECT_EQ(commands[1].cancel().kill_grace_ns(), 3'000'000'000);
    EXPECT_EQ(commands[2].cancel().kill_grace_ns(), 0);
  });
}

TEST_F(ExecTest, ClientCancel_LosesTheReaderAndNotTheProgram) {
  OnOpen([](const auto& stream) { stream->SayReady(); });
  auto client = Open(StartOf(Acquire()));
  ASSERT_TRUE(client->Read());
  client->context.TryCancel();
  EXPECT_EQ(client->stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return OnlyStream()->left(); }));
  OnLoop([&] { EXPECT_TRUE(OnlyStream()->commands().empty()); });
}

TEST_F(ExecTest, CancelBeforeReady_LosesTheReaderToo) {
  auto client = Open(StartOf(Acquire()));
  ASSERT_TRUE(Eventually([&] { return OnlyStream() != nullptr; }));
  client->context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return OnlyStream()->left(); }));
}

TEST_F(ExecTest, CancelledButItAlsoEnded_EndsOnce) {
  OnOpen([](const auto& stream) { stream->SayReady(); });
  const std::string sandbox = Acquire();
  for (int i = 0; i < 50; ++i) {
    auto client = Open(StartOf(sandbox));
    ASSERT_TRUE(client->Read());
    loop_.Post([this] { OnlyStream()->Exit(0); });
    client->context.TryCancel();
    const grpc::Status status = client->stream->Finish();
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED);
  }
}

TEST_F(ExecTest, ResetByTheAgent_IsTheStatusAfterTheEvents) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    stream->Print(1, "x");
    stream->Reset("INPUT_GAP", "input must start at 0");
  });
  auto client = Open(StartOf(Acquire(), true));
  ASSERT_TRUE(client->Read());
  ASSERT_TRUE(client->Read());
  EXPECT_EQ(client->event.output().data(), "x");
  EXPECT_FALSE(client->Read());
  const CallError error = ErrorOf(client->stream->Finish());
  EXPECT_EQ(error.code, grpc::StatusCode::ABORTED);
  EXPECT_EQ(error.reason, "INPUT_GAP");
}

TEST_F(ExecTest, Drain_EndsTheCallAndNotTheProgram) {
  OnOpen([](const auto& stream) { stream->SayReady(); });
  auto client = Open(StartOf(Acquire()));
  ASSERT_TRUE(client->Read());
  OnLoop([&] {
    broker_.Drain();
    broker_.FailOpenExecutions();
  });
  EXPECT_FALSE(client->Read());
  const CallError error = ErrorOf(client->stream->Finish());
  EXPECT_EQ(error.reason, "SERVER_DRAINING");
  EXPECT_TRUE(error.retry);
  EXPECT_TRUE(Eventually([&] { return OnlyStream()->left() && OnlyStream()->commands().empty(); }));
}

TEST_F(ExecTest, ReaderThatStops_HoldsOneWindowAndNobodyElse) {
  constexpr uint64_t kTotal = 64 << 20;
  OnOpen([](const auto& stream) {
    stream->SayReady();
    PrintAll(stream, kTotal);
  });
  const std::string sandbox = Acquire();
  // What HTTP/2 lets through ahead of the reader is the reader's own choice: here 64 KiB.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = v1::SandboxBroker::NewStub(grpc::CreateCustomChannel(
      StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials(), arguments));
  auto stalled = Open(StartOf(sandbox), stub.get());
  ASSERT_TRUE(stalled->Read());  // ready, and then no more
  auto other = Open(StartOf(sandbox), stub.get());
  uint64_t got = 0;
  while (other->Read() && !other->event.has_ended()) got += other->event.output().data().size();
  EXPECT_EQ(got, kTotal);
  // The window, one message that gRPC holds, and the reader's 64 KiB.
  OnLoop([&] {
    EXPECT_LE(backend_.only_link()->streams().front()->printed(), (1u << 20) + (512 << 10));
  });
  stalled->context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return backend_.only_link()->streams().front()->left(); }));
}

TEST_F(ExecTest, PiecesThatCannotBeJoined_EndTheCallBeforeTheyFillTheMemory) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    for (int i = 0; i < 1'000'000 && !stream->left(); ++i) stream->Print(1 + i % 2, "x");
  });
  auto client = Open(StartOf(Acquire()));
  EXPECT_TRUE(Eventually([&] { return OnlyStream() && OnlyStream()->left(); }));
  while (client->Read()) {
  }
  EXPECT_EQ(ErrorOf(client->stream->Finish()).reason, "CAPACITY");
}

TEST_F(ExecTest, Shutdown_WithStreamsInEveryState_EndsWithinTheGrace) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    PrintAll(stream, 64 << 20);
  });
  const std::string sandbox = Acquire();
  auto unread = Open(StartOf(sandbox));
  ASSERT_TRUE(unread->Read());
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto silent = stub_->Exec(&context);  // never sends its start
  ASSERT_TRUE(Eventually([&] { return OnlyStream() != nullptr && OnlyStream()->printed() > 0; }));
  EXPECT_LT(Shutdown(std::chrono::milliseconds(200)), std::chrono::seconds(5));
}

class HeartbeatTest : public ExecTest {
 protected:
  HeartbeatTest() : ExecTest(Settings(std::chrono::milliseconds(20))) {}
};

TEST_F(HeartbeatTest, SilentProgram_IsHeardOf) {
  OnOpen([](const auto& stream) {
    stream->SayReady();
    stream->Print(1, "12345");
  });
  auto client = Open(StartOf(Acquire()));
  for (int beats = 0; beats < 3;) {
    ASSERT_TRUE(client->Read());
    if (!client->event.has_heartbeat()) continue;
    EXPECT_EQ(client->event.heartbeat().end_offset(), 5u);
    ++beats;
  }
}

}  // namespace
}  // namespace sandbroker::testing

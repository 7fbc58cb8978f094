// WatchSandboxes through a real server, and calls on sandboxes that the server has to ask its
// backend for first.
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "lib/base/strings.h"
#include "server/services/watch_session.h"
#include "tests/support/service_fixture.h"

namespace sandbroker::testing {
namespace {

using Event = v1::WatchSandboxesResponse;
using std::chrono::minutes;

class WatchTest : public ServiceFixture {
 protected:
  using Reader = grpc::ClientReader<Event>;

  std::unique_ptr<Reader> Watch(grpc::ClientContext* context, const std::string& selector = "") {
    SetDeadline(context);
    v1::WatchSandboxesRequest request;
    request.set_label_selector(selector);
    return stub_->WatchSandboxes(context, request);
  }
  static Event Next(Reader& reader) {
    Event event;
    EXPECT_TRUE(reader.Read(&event));
    return event;
  }
  bool Watchers(int count) {
    return Eventually([&] {
      return metrics_.Render().find(StrCat("sandbroker_watchers ", count)) != std::string::npos;
    });
  }
  // A claim of another replica, as a handle names it.
  std::string ForeignHandle() {
    broker::Handle handle{"default", 't', "local", "default", "foreign", "boot-foreign"};
    return broker::EncodeHandle(handle, std::string(32, 'k'));
  }
  void AdoptWhenSought() {
    OnLoop([this] {
      backend_.on_seek = [this](const std::string& uid) {
        broker::Claim claim;
        claim.tenant = "default";
        claim.acquired = loop_.WallNow();
        claim.until = loop_.WallNow() + minutes(10);
        const auto link = backend_.Adopt(uid, claim);
        link->on_open = [this](const std::shared_ptr<FakeStream>& stream) {
          loop_.Post([stream] {
            stream->SayReady();
            stream->Print(1, "hello");
            stream->Exit(0);
          });
        };
      };
    });
  }
};

TEST_F(WatchTest, SnapshotThenChanges_AreStreamed) {
  const std::string first = Acquire();
  grpc::ClientContext context;
  const auto reader = Watch(&context);
  EXPECT_EQ(Next(*reader).added().sandbox_id(), first);
  EXPECT_TRUE(Next(*reader).has_synced());
  const std::string second = Acquire();
  const Event added = Next(*reader);
  EXPECT_EQ(added.added().sandbox_id(), second);
  EXPECT_EQ(added.added().state(), v1::SANDBOX_STATE_READY);
  v1::ReleaseRequest release;
  release.set_sandbox_id(first);
  v1::ReleaseResponse released;
  grpc::ClientContext other;
  ASSERT_TRUE(stub_->Release(&other, release, &released).ok());
  Event event = Next(*reader);
  while (event.has_modified()) event = Next(*reader);
  EXPECT_EQ(event.removed().sandbox_id(), first);
  EXPECT_EQ(event.removed().reason(), "SANDBOX_GONE");
  EXPECT_EQ(event.removed().cause(), "released");
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Watchers(0));
}

TEST_F(WatchTest, BadSelector_NamesItsField) {
  grpc::ClientContext context;
  const auto reader = Watch(&context, "a in (");
  Event event;
  EXPECT_FALSE(reader->Read(&event));
  const CallError error = ErrorOf(reader->Finish());
  EXPECT_EQ(error.code, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(error.field, "label_selector");
}

// More than is under way at once, so that gRPC's word on what it took moves it on.
TEST_F(WatchTest, LongSnapshot_ComesWhole) {
  const size_t count = 5 * services::WatchSession::kAhead + 7;
  for (size_t i = 0; i < count; ++i) Acquire();
  grpc::ClientContext context;
  const auto reader = Watch(&context);
  for (size_t i = 0; i < count; ++i) ASSERT_TRUE(Next(*reader).has_added()) << i;
  EXPECT_TRUE(Next(*reader).has_synced());
  context.TryCancel();
}

TEST_F(WatchTest, TooManyWatchers_AreRefusedAndToldWhenToTryAgain) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<Reader>> readers;
  const size_t limit = broker::BrokerSettings().max_watches;
  for (size_t i = 0; i < limit; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(Watch(contexts.back().get()));
    ASSERT_TRUE(Next(*readers.back()).has_synced());
  }
  grpc::ClientContext context;
  const CallError error = ErrorOf(Watch(&context)->Finish());
  EXPECT_EQ(error.code, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(error.reason, "CAPACITY");
  EXPECT_TRUE(error.retry);
  for (const auto& open : contexts) open->TryCancel();
  EXPECT_TRUE(Watchers(0));
}

TEST_F(WatchTest, Drain_EndsTheStreamWithItsReason) {
  grpc::ClientContext context;
  const auto reader = Watch(&context);
  ASSERT_TRUE(Next(*reader).has_synced());
  OnLoop([this] { broker_.Drain(); });
  Event event;
  EXPECT_FALSE(reader->Read(&event));
  const CallError error = ErrorOf(reader->Finish());
  EXPECT_EQ(error.code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(error.reason, "SERVER_DRAINING");
}

TEST_F(WatchTest, UnaryCallsOnAForeignHandle_AreAnsweredOnceItIsFound) {
  AdoptWhenSought();
  grpc::ClientContext context;
  v1::GetSandboxRequest get;
  get.set_sandbox_id(ForeignHandle());
  v1::GetSandboxResponse got;
  const grpc::Status status = stub_->GetSandbox(&context, get, &got);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(got.sandbox().sandbox_id(), ForeignHandle());
}

TEST_F(WatchTest, RunOnAForeignHandle_RunsOnceItIsFound) {
  AdoptWhenSought();
  grpc::ClientContext context;
  v1::RunResponse ran;
  const grpc::Status status = stub_->Run(&context, RunOf(ForeignHandle()), &ran);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(ran.stdout(), "hello");
}

TEST_F(WatchTest, ExecOnAForeignHandle_ReadsOnOnlyOnceItIsFound) {
  AdoptWhenSought();
  OnLoop([this] { backend_.hold_seeks = true; });
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto stream = stub_->Exec(&context);
  ASSERT_TRUE(stream->Write(StartOf(ForeignHandle(), /*input=*/true)));
  v1::ExecRequest input;
  input.mutable_stdin()->set_data("early");
  ASSERT_TRUE(stream->Write(input));
  ASSERT_TRUE(Eventually([this] { return backend_.seeking() == 1; }));
  OnLoop([this] { backend_.FinishSeeks(); });
  v1::ExecResponse event;
  bool ended = false;
  while (stream->Read(&event)) ended = ended || event.has_ended();
  EXPECT_TRUE(ended);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(WatchTest, ExecThatLeavesWhileItsHandleIsSought_LeavesNothingBehind) {
  AdoptWhenSought();
  OnLoop([this] { backend_.hold_seeks = true; });
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto stream = stub_->Exec(&context);
  ASSERT_TRUE(stream->Write(StartOf(ForeignHandle())));
  ASSERT_TRUE(Eventually([this] { return backend_.seeking() == 1; }));
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(Eventually([this] { return scope_.running() == 1; }));  // the seek itself goes on
  OnLoop([this] { backend_.FinishSeeks(); });
  ASSERT_TRUE(Eventually([this] { return scope_.running() == 0; }));
  EXPECT_TRUE(Eventually([this] { return backend_.link("foreign")->streams().empty(); }));
}

TEST_F(WatchTest, HandleOfAGoneSandbox_IsGoneForEveryCall) {
  grpc::ClientContext context;
  v1::RunResponse ran;
  EXPECT_EQ(ErrorOf(stub_->Run(&context, RunOf(ForeignHandle()), &ran)).reason, "SANDBOX_GONE");
  grpc::ClientContext other;
  SetDeadline(&other);
  const auto stream = stub_->Exec(&other);
  stream->Write(StartOf(ForeignHandle()));
  EXPECT_EQ(ErrorOf(stream->Finish()).reason, "SANDBOX_GONE");
}

}  // namespace
}  // namespace sandbroker::testing

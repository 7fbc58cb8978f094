// Whatever a handler does with its call, the caller gets one answer: through a real server.
#include "lib/rpc/unary.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

#include "lib/async/loop.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "sandbroker/v1/broker.grpc.pb.h"

namespace sandbroker::rpc {
namespace {

using Request = v1::GetServerInfoRequest;
using Response = v1::GetServerInfoResponse;
using Handler = std::function<void(const CallContext&, Responder<Response>)>;
using Coroutine = std::function<Task<absl::StatusOr<Response>>(CallContext)>;

// GetServerInfo goes to `handler`, or to `coroutine` where that is set.
class Service final
    : public v1::SandboxBroker::WithCallbackMethod_GetServerInfo<v1::SandboxBroker::Service> {
 public:
  explicit Service(const Runtime& runtime) : runtime_(runtime) {}

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const Request* request, Response* response) override {
    if (coroutine) {
      return ServeTask(runtime_, "GetServerInfo", context, request, response,
                       [this](const CallContext& call, const Request&) { return coroutine(call); });
    }
    return ServeUnary(runtime_, "GetServerInfo", context, request, response,
                      [this](const CallContext& call, const Request&, Responder<Response> answer) {
                        handler(call, std::move(answer));
                      });
  }

  Handler handler;
  Coroutine coroutine;

 private:
  const Runtime runtime_;
};

class UnaryTest : public ::testing::Test {
 protected:
  UnaryTest() : scope_(loop_.context(), [](auto, auto) {}), service_({loop_, scope_, metrics_}) {
    loop_.Start();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = v1::SandboxBroker::NewStub(
        grpc::CreateChannel(StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
  ~UnaryTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    std::promise<void> joined;
    loop_.Post([&] { scope_.Join([&] { joined.set_value(); }); });
    joined.get_future().wait();
    loop_.Stop();
  }
  grpc::Status Call() { return stub_->GetServerInfo(&context_, Request(), &response_); }

  Loop loop_;
  obs::Metrics metrics_;
  TaskScope scope_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::SandboxBroker::Stub> stub_;
  grpc::ClientContext context_;
  Response response_;
};

TEST_F(UnaryTest, Answer_InPlace_Arrives) {
  service_.handler = [this](const CallContext& call, Responder<Response> responder) {
    EXPECT_TRUE(loop_.InLoop());
    EXPECT_EQ(call.method, "GetServerInfo");
    EXPECT_TRUE(call.peer.starts_with("ipv4:127.0.0.1:")) << call.peer;
    EXPECT_LT(call.deadline, kNever);
    responder.response().set_version("1");
    responder.Finish(absl::OkStatus());
  };
  EXPECT_TRUE(Call().ok());
  EXPECT_EQ(response_.version(), "1");
  EXPECT_NE(metrics_.Render().find("method=\"GetServerInfo\""), std::string::npos);
}

TEST_F(UnaryTest, DroppedResponder_StillAnswers) {
  service_.handler = [](const CallContext&, Responder<Response>) {};
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::INTERNAL);
}

TEST_F(UnaryTest, Exception_AnswersInternalWithoutItsText) {
  service_.handler = [](const CallContext&, Responder<Response>) {
    throw std::runtime_error("secret");
  };
  const grpc::Status status = Call();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message().find("secret"), std::string::npos);
}

TEST_F(UnaryTest, AnswerAfterTheHandlerReturned_Arrives) {
  service_.handler = [this](const CallContext&, Responder<Response> responder) {
    auto held = std::make_shared<Responder<Response>>(std::move(responder));
    loop_.Post([held] { held->Finish(MakeError(Reason::kPoolNotFound, "later")); });
  };
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::NOT_FOUND);
}

Task<absl::StatusOr<Response>> WaitFor(OneShot<int> value) {
  const int number = co_await value.Wait();
  Response response;
  response.set_version(StrCat(number));
  co_return response;
}

TEST_F(UnaryTest, Coroutine_AnswersWhenItIsDone) {
  service_.coroutine = [this](const CallContext&) {
    OneShot<int> value;
    loop_.Post([value] { value.Set(7); });
    return WaitFor(value);
  };
  EXPECT_TRUE(Call().ok());
  EXPECT_EQ(response_.version(), "7");
}

Task<absl::StatusOr<Response>> Throw() {
  throw std::runtime_error("secret");
  co_return absl::OkStatus();
}

TEST_F(UnaryTest, CoroutineThatThrows_StillAnswers) {
  service_.coroutine = [](const CallContext&) { return Throw(); };
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::INTERNAL);
}

TEST_F(UnaryTest, Cancel_ReachesTheTokenAndTheCallIsFinished) {
  std::promise<void> cancelled;
  std::promise<void> entered;
  service_.handler = [&](const CallContext& call, Responder<Response> responder) {
    auto held = std::make_shared<Responder<Response>>(std::move(responder));
    call.cancel.OnCancel([&, held] {
      held->Finish(MakeError(Reason::kCancelled, "cancelled"));
      cancelled.set_value();
    });
    entered.set_value();
  };
  auto call = std::async(std::launch::async, [this] { return Call(); });
  entered.get_future().wait();
  context_.TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(cancelled.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST_F(UnaryTest, CancelledButItAlsoSucceeded_FinishesOnce) {
  std::promise<void> entered;
  std::promise<void> done;
  service_.handler = [&](const CallContext& call, Responder<Response> responder) {
    auto held = std::make_shared<Responder<Response>>(std::move(responder));
    call.cancel.OnCancel([&, held] {
      held->Finish(absl::OkStatus());
      EXPECT_TRUE(held->answered());
      done.set_value();
    });
    entered.set_value();
  };
  auto call = std::async(std::launch::async, [this] { return Call(); });
  entered.get_future().wait();
  context_.TryCancel();
  call.wait();
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST_F(UnaryTest, CancelWithoutSubscriber_IsAnsweredByTheHandlersOwnEnd) {
  std::promise<std::shared_ptr<Responder<Response>>> entered;
  service_.handler = [&](const CallContext&, Responder<Response> responder) {
    entered.set_value(std::make_shared<Responder<Response>>(std::move(responder)));
  };
  auto call = std::async(std::launch::async, [this] { return Call(); });
  auto held = entered.get_future().get();
  context_.TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
  loop_.Post([held = std::move(held)]() mutable { held.reset(); });  // the handler is dropped late
}

}  // namespace
}  // namespace sandbroker::rpc

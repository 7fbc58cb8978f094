// Unary calls through a real server: what they answer, what their errors carry, and what a caller
// that goes away at each wait leaves behind.
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

#include "lib/base/strings.h"
#include "server/services/limits.h"
#include "tests/support/service_fixture.h"

namespace sandbroker::testing {
namespace {

// Lets a test see the token of the newest call, and decide who may call.
class SpyAuthoriser final : public services::Authoriser {
 public:
  absl::StatusOr<broker::Principal> Authorise(const rpc::CallContext& call) const override {
    cancel = call.cancel;
    if (fail) return *fail;
    if (raise) throw std::runtime_error("secret");
    return principal;
  }
  mutable CancelToken cancel;
  std::optional<absl::Status> fail;
  bool raise = false;
  broker::Principal principal{"local", "default"};
};

services::ServiceSettings Settings() {
  services::ServiceSettings settings;
  settings.version = "test";
  settings.replica_id = "replica-1";
  return settings;
}

class BrokerServiceTest : public ServiceFixture {
 protected:
  BrokerServiceTest() : ServiceFixture(Settings(), std::make_unique<SpyAuthoriser>()) {}
  SpyAuthoriser& spy() { return static_cast<SpyAuthoriser&>(*authoriser_); }

  template <class Request, class Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return (stub_.get()->*method)(&context, request, response);
  }
  // Makes a call that waits, lets `arrived` tell when it does, cancels it, and waits until the
  // server has seen that.
  template <class Request, class Response>
  void CancelWhile(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request, const std::function<bool()>& arrived) {
    grpc::ClientContext context;
    SetDeadline(&context);
    Response response;
    auto call = std::async(std::launch::async,
                           [&] { return (stub_.get()->*method)(&context, request, &response); });
    ASSERT_TRUE(Eventually(arrived));
    CancelToken token;
    OnLoop([&] { token = spy().cancel; });
    context.TryCancel();
    EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
    // A call that has been answered meanwhile never hears of it.
    cancel_seen_ = Eventually([&] { return token.cancelled() || scope_.running() == 0; });
    EXPECT_TRUE(cancel_seen_);
  }

  bool cancel_seen_ = false;
};

v1::AcquireRequest TaskRequest() {
  v1::AcquireRequest request;
  request.mutable_task();
  return request;
}

TEST_F(BrokerServiceTest, AcquireGetListRenewRelease_GoTogether) {
  auto acquire = TaskRequest();
  (*acquire.mutable_labels())["task"] = "a";
  v1::AcquireResponse acquired;
  ASSERT_TRUE(Call(&Stub::Acquire, acquire, &acquired).ok());
  EXPECT_EQ(acquired.source(), v1::ACQUIRE_SOURCE_WARM);
  EXPECT_EQ(acquired.sandbox().kind(), v1::SANDBOX_KIND_TASK);
  EXPECT_EQ(acquired.sandbox().labels().at("task"), "a");
  EXPECT_EQ(acquired.sandbox().incarnation(), "boot-1");
  const std::string id = acquired.sandbox().sandbox_id();

  v1::GetSandboxRequest get;
  get.set_sandbox_id(id);
  v1::GetSandboxResponse got;
  ASSERT_TRUE(Call(&Stub::GetSandbox, get, &got).ok());
  EXPECT_EQ(got.sandbox().state(), v1::SANDBOX_STATE_READY);

  v1::ListSandboxesResponse list;
  ASSERT_TRUE(Call(&Stub::ListSandboxes, v1::ListSandboxesRequest(), &list).ok());
  EXPECT_EQ(list.sandboxes_size(), 1);

  v1::RenewLeasesRequest renew;
  renew.add_sandbox_ids(id);
  renew.add_sandbox_ids("forged");
  v1::RenewLeasesResponse renewed;
  ASSERT_TRUE(Call(&Stub::RenewLeases, renew, &renewed).ok());
  ASSERT_EQ(renewed.results_size(), 2);
  EXPECT_EQ(renewed.results(0).code(), 0);
  EXPECT_GT(renewed.results(0).lease().remaining().seconds(), 500);
  EXPECT_EQ(renewed.results(1).reason(), "SANDBOX_NOT_FOUND");

  v1::ReleaseRequest release;
  release.set_sandbox_id(id);
  v1::ReleaseResponse released;
  ASSERT_TRUE(Call(&Stub::Release, release, &released).ok());
  EXPECT_FALSE(released.already_gone());
  ASSERT_TRUE(Call(&Stub::Release, release, &released).ok());
  EXPECT_TRUE(released.already_gone());
  EXPECT_EQ(ErrorOf(Call(&Stub::GetSandbox, get, &got)).reason, "SANDBOX_GONE");
}

TEST_F(BrokerServiceTest, ReleaseTaskSandboxes_NeedsASelectorAndHonoursDryRun) {
  auto acquire = TaskRequest();
  (*acquire.mutable_labels())["task"] = "a";
  v1::AcquireResponse acquired;
  ASSERT_TRUE(Call(&Stub::Acquire, acquire, &acquired).ok());
  Acquire();  // without the label

  v1::ReleaseTaskSandboxesRequest request;
  v1::ReleaseTaskSandboxesResponse response;
  EXPECT_EQ(ErrorOf(Call(&Stub::ReleaseTaskSandboxes, request, &response)).field, "label_selector");
  request.set_label_selector("task=a");
  request.set_dry_run(true);
  ASSERT_TRUE(Call(&Stub::ReleaseTaskSandboxes, request, &response).ok());
  EXPECT_EQ(response.results_size(), 1);
  OnLoop([&] { EXPECT_EQ(backend_.live(), 2u); });
  request.set_dry_run(false);
  ASSERT_TRUE(Call(&Stub::ReleaseTaskSandboxes, request, &response).ok());
  EXPECT_EQ(response.results_size(), 1);
  EXPECT_EQ(response.results(0).code(), 0);
  OnLoop([&] { EXPECT_EQ(backend_.live(), 1u); });
}

TEST_F(BrokerServiceTest, CapacityAndInfo_SayWhatTheBackendSays) {
  v1::ReadTaskCapacityResponse capacity;
  ASSERT_TRUE(Call(&Stub::ReadTaskCapacity, v1::ReadTaskCapacityRequest(), &capacity).ok());
  ASSERT_EQ(capacity.pools_size(), 1);
  EXPECT_EQ(capacity.pools(0).limit(), 64u);
  v1::ReadTaskCapacityRequest unknown;
  unknown.set_pool("other");
  EXPECT_EQ(ErrorOf(Call(&Stub::ReadTaskCapacity, unknown, &capacity)).reason, "POOL_NOT_FOUND");

  v1::GetServerInfoResponse info;
  ASSERT_TRUE(Call(&Stub::GetServerInfo, v1::GetServerInfoRequest(), &info).ok());
  EXPECT_EQ(info.version(), "test");
  EXPECT_EQ(info.backends(0).name(), "fake");
  EXPECT_EQ(info.limits().window_bytes(), 1u << 20);
  EXPECT_EQ(info.limits().heartbeat_interval().seconds(), 10);
}

TEST_F(BrokerServiceTest, RefusedFields_AreNamed) {
  v1::AcquireResponse acquired;
  EXPECT_EQ(ErrorOf(Call(&Stub::Acquire, v1::AcquireRequest(), &acquired)).field, "task");
  v1::ListSandboxesRequest list;
  list.set_page_size(1001);
  v1::ListSandboxesResponse listed;
  EXPECT_EQ(ErrorOf(Call(&Stub::ListSandboxes, list, &listed)).field, "page_size");
  list.set_page_size(-1);
  EXPECT_EQ(ErrorOf(Call(&Stub::ListSandboxes, list, &listed)).field, "page_size");
  list.set_page_size(0);
  list.set_page_token("made up");
  EXPECT_EQ(ErrorOf(Call(&Stub::ListSandboxes, list, &listed)).field, "page_token");
  list.set_label_selector("a in (");
  EXPECT_EQ(ErrorOf(Call(&Stub::ListSandboxes, list, &listed)).field, "label_selector");
  v1::RenewLeasesRequest renew;
  v1::RenewLeasesResponse renewed;
  EXPECT_EQ(ErrorOf(Call(&Stub::RenewLeases, renew, &renewed)).field, "sandbox_ids");
  for (size_t i = 0; i <= services::kMaxRenewals; ++i) renew.add_sandbox_ids("x");
  EXPECT_EQ(ErrorOf(Call(&Stub::RenewLeases, renew, &renewed)).field, "sandbox_ids");
  v1::ReleaseResponse released;
  EXPECT_EQ(ErrorOf(Call(&Stub::Release, v1::ReleaseRequest(), &released)).field, "sandbox_id");
}

TEST_F(BrokerServiceTest, ErrorsOfEveryCode_CarryTheirReason) {
  for (int number = 1; number < kReasonCount; ++number) {
    const auto reason = static_cast<Reason>(number);
    OnLoop([&] { backend_.acquire_error = MakeError(reason, "scripted"); });
    v1::AcquireResponse response;
    const CallError error = ErrorOf(Call(&Stub::Acquire, TaskRequest(), &response));
    EXPECT_EQ(static_cast<int>(error.code), static_cast<int>(CodeOf(reason)));
    EXPECT_EQ(error.reason, ReasonName(reason));
    EXPECT_EQ(error.domain, "sandbroker.dev");
  }
}

TEST_F(BrokerServiceTest, ForgedAndForeignHandles_LookTheSame) {
  const std::string id = Acquire();
  v1::GetSandboxRequest request;
  v1::GetSandboxResponse response;
  request.set_sandbox_id(id + "x");
  const grpc::Status forged = Call(&Stub::GetSandbox, request, &response);
  request.set_sandbox_id(id);
  OnLoop([&] { spy().principal.tenant = "other"; });
  const grpc::Status foreign = Call(&Stub::GetSandbox, request, &response);
  EXPECT_EQ(ErrorOf(forged).reason, "SANDBOX_NOT_FOUND");
  EXPECT_EQ(forged.error_code(), foreign.error_code());
  EXPECT_EQ(forged.error_message(), foreign.error_message());
}

TEST_F(BrokerServiceTest, Authoriser_IsAskedByEveryCall) {
  OnLoop([&] { spy().fail = MakeError(Reason::kNotAuthorised, "no"); });
  const auto denied = [](const grpc::Status& status) {
    return ErrorOf(status).reason == "NOT_AUTHORISED";
  };
  v1::AcquireResponse acquire;
  EXPECT_TRUE(denied(Call(&Stub::Acquire, TaskRequest(), &acquire)));
  v1::ReleaseResponse release;
  EXPECT_TRUE(denied(Call(&Stub::Release, v1::ReleaseRequest(), &release)));
  v1::ReleaseTaskSandboxesResponse matching;
  EXPECT_TRUE(
      denied(Call(&Stub::ReleaseTaskSandboxes, v1::ReleaseTaskSandboxesRequest(), &matching)));
  v1::ReadTaskCapacityResponse capacity;
  EXPECT_TRUE(denied(Call(&Stub::ReadTaskCapacity, v1::ReadTaskCapacityRequest(), &capacity)));
  v1::GetSandboxResponse get;
  EXPECT_TRUE(denied(Call(&Stub::GetSandbox, v1::GetSandboxRequest(), &get)));
  v1::ListSandboxesResponse list;
  EXPECT_TRUE(denied(Call(&Stub::ListSandboxes, v1::ListSandboxesRequest(), &list)));
  v1::RenewLeasesResponse renew;
  EXPECT_TRUE(denied(Call(&Stub::RenewLeases, v1::RenewLeasesRequest(), &renew)));
  v1::RunResponse run;
  EXPECT_TRUE(denied(Call(&Stub::Run, v1::RunRequest(), &run)));
  v1::GetServerInfoResponse info;
  EXPECT_TRUE(denied(Call(&Stub::GetServerInfo, v1::GetServerInfoRequest(), &info)));
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto exec = stub_->Exec(&context);
  exec->Write(v1::ExecRequest(StartOf("x")));
  EXPECT_TRUE(denied(exec->Finish()));
}

TEST_F(BrokerServiceTest, ExceptionInAHandler_IsInternalAndNamesNothing) {
  OnLoop([&] { spy().raise = true; });
  v1::AcquireResponse acquired;
  v1::GetServerInfoResponse info;
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto exec = stub_->Exec(&context);
  exec->Write(StartOf("x"));
  for (const grpc::Status& status :
       {Call(&Stub::Acquire, TaskRequest(), &acquired),
        Call(&Stub::GetServerInfo, v1::GetServerInfoRequest(), &info), exec->Finish()}) {
    EXPECT_EQ(ErrorOf(status).reason, "INTERNAL");
    EXPECT_EQ(status.error_message().find("secret"), std::string::npos);
  }
}

TEST_F(BrokerServiceTest, CancelWhileQueued_GivesUpThePlace) {
  OnLoop([&] { backend_.hold_acquires = true; });
  CancelWhile<v1::AcquireRequest, v1::AcquireResponse>(&Stub::Acquire, TaskRequest(),
                                                       [&] { return backend_.waiting() == 1; });
  EXPECT_TRUE(Eventually([&] { return backend_.waiting() == 0 && scope_.running() == 0; }));
  OnLoop([&] { EXPECT_EQ(backend_.acquired(), 0u); });
}

TEST_F(BrokerServiceTest, CancelledButAlsoAcquired_LeavesNoSandboxBehind) {
  OnLoop([&] { backend_.on_link = [](FakeAgentLink& link) { link.hold_binds = true; }; });
  auto request = TaskRequest();
  request.add_env()->set_name("A");
  CancelWhile<v1::AcquireRequest, v1::AcquireResponse>(&Stub::Acquire, request,
                                                       [&] { return backend_.live() == 1; });
  OnLoop([&] { backend_.only_link()->AnswerBinds(absl::OkStatus()); });
  EXPECT_TRUE(Eventually([&] { return scope_.running() == 0; }));
  OnLoop([&] { EXPECT_EQ(backend_.live(), 0u); });
}

TEST_F(BrokerServiceTest, CancelOfARelease_StillReleases) {
  v1::ReleaseRequest request;
  request.set_sandbox_id(Acquire());
  OnLoop([&] { backend_.hold_releases = true; });
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ReleaseResponse response;
  auto call =
      std::async(std::launch::async, [&] { return stub_->Release(&context, request, &response); });
  ASSERT_TRUE(Eventually([&] { return scope_.running() == 1; }));
  context.TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::CANCELLED);
  OnLoop([&] { backend_.FinishReleases(); });
  EXPECT_TRUE(Eventually([&] { return backend_.released() == 1 && scope_.running() == 0; }));
}

TEST_F(BrokerServiceTest, Drain_RefusesAndEndsTheQueue) {
  OnLoop([&] { backend_.hold_acquires = true; });
  auto waiting = std::async(std::launch::async, [&] {
    v1::AcquireResponse response;
    return Call(&Stub::Acquire, TaskRequest(), &response);
  });
  ASSERT_TRUE(Eventually([&] { return backend_.waiting() == 1; }));
  OnLoop([&] { broker_.Drain(); });
  const CallError error = ErrorOf(waiting.get());
  EXPECT_EQ(error.reason, "SERVER_DRAINING");
  EXPECT_TRUE(error.retry);
}

}  // namespace
}  // namespace sandbroker::testing

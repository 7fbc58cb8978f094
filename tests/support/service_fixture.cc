#include "tests/support/service_fixture.h"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>

#include <future>
#include <thread>
#include <utility>

#include "lib/base/strings.h"
#include "lib/rpc/server_options.h"

namespace sandbroker::testing {
namespace {

services::ServiceSettings DefaultSettings() {
  services::ServiceSettings settings;
  settings.version = "test";
  settings.replica_id = "replica-1";
  return settings;
}

broker::BrokerSettings BrokerDefaults() {
  broker::BrokerSettings settings;
  settings.handle_key = std::string(32, 'k');
  settings.replica_id = "replica-1";
  return settings;
}

}  // namespace

CallError ErrorOf(const grpc::Status& status) {
  CallError error{status.error_code(), "", "", false, ""};
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return error;
  for (const auto& any : details.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad;
    if (any.UnpackTo(&info)) {
      error.reason = info.reason();
      error.domain = info.domain();
    }
    if (any.UnpackTo(&bad)) error.field = bad.field_violations(0).field();
    error.retry = error.retry || any.Is<google::rpc::RetryInfo>();
  }
  return error;
}

ServiceFixture::ServiceFixture() : ServiceFixture(DefaultSettings()) {}

ServiceFixture::ServiceFixture(services::ServiceSettings settings,
                               std::unique_ptr<services::Authoriser> authoriser)
    : scope_(loop_.context(),
             [](std::string_view name, std::string_view what) {
               ADD_FAILURE() << "exception in " << name << ": " << what;
             }),
      owned_broker_(std::make_unique<broker::Broker>(loop_, scope_, backend_, receipts_, metrics_,
                                                     BrokerDefaults())),
      broker_(*owned_broker_),
      authoriser_(authoriser ? std::move(authoriser)
                             : std::make_unique<services::LocalAuthoriser>()),
      service_({loop_, scope_, metrics_}, broker_, *authoriser_, std::move(settings)) {
  loop_.Start();
  grpc::ServerBuilder builder;
  rpc::ApplyServerOptions(builder);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  channel_ = grpc::CreateChannel(StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials());
  stub_ = v1::SandboxBroker::NewStub(channel_);
}

ServiceFixture::~ServiceFixture() {
  Shutdown(std::chrono::seconds(0));
  std::promise<void> joined;
  loop_.Post([&] { scope_.Join([&] { joined.set_value(); }); });
  EXPECT_EQ(joined.get_future().wait_for(kPatience), std::future_status::ready);
  // With its leases' timers, which would keep the loop going.
  OnLoop([this] { owned_broker_.reset(); });
  loop_.Stop();
}

Duration ServiceFixture::Shutdown(Duration grace) {
  const auto begin = std::chrono::steady_clock::now();
  if (server_) {
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::microseconds>(grace));
    server_->Wait();
    server_.reset();
  }
  return std::chrono::steady_clock::now() - begin;
}

void ServiceFixture::OnLoop(const std::function<void()>& fn) {
  std::promise<void> done;
  loop_.Post([&] {
    fn();
    done.set_value();
  });
  done.get_future().wait();
}

bool ServiceFixture::Eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    bool now = false;
    OnLoop([&] { now = holds(); });
    if (now) return true;
    std::this_thread::yield();
  }
  return false;
}

void ServiceFixture::OnOpen(std::function<void(std::shared_ptr<FakeStream>)> script) {
  OnLoop([&] {
    backend_.on_link = [this, script](FakeAgentLink& link) {
      link.on_open = [this, script](const std::shared_ptr<FakeStream>& stream) {
        loop_.Post([script, stream] { script(stream); });
      };
    };
  });
}

std::string ServiceFixture::Acquire() {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::AcquireRequest request;
  request.mutable_task();
  v1::AcquireResponse response;
  const grpc::Status status = stub_->Acquire(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.sandbox().sandbox_id();
}

std::unique_ptr<ServiceFixture::Stub> ServiceFixture::NewStub() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::SandboxBroker::NewStub(grpc::CreateCustomChannel(
      StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials(), arguments));
}

void ServiceFixture::SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
}

v1::ExecRequest ServiceFixture::StartOf(const std::string& sandbox, bool input) {
  v1::ExecRequest request;
  request.mutable_start()->set_sandbox_id(sandbox);
  request.mutable_start()->mutable_spec()->add_argv("true");
  request.mutable_start()->set_stdin(input);
  return request;
}

v1::RunRequest ServiceFixture::RunOf(const std::string& sandbox) {
  v1::RunRequest request;
  request.set_sandbox_id(sandbox);
  request.mutable_spec()->add_argv("true");
  return request;
}

}  // namespace sandbroker::testing

// What becomes of a call to the API server, whatever the server does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>

#include "tests/component/kube_fixture.h"

namespace sandbroker::testing {
namespace {

namespace json = boost::json;
using kube::Outcome;
using kube::Result;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using What = Fault::What;

class KubeClientTest : public KubeFixture {};

TEST_F(KubeClientTest, EachVerb_DoesWhatItSaysAndBringsTheAnswer) {
  const Result created = Call(Create("a"));
  ASSERT_TRUE(created.ok()) << created.message;
  EXPECT_EQ(created.http_status, 201);
  const std::string uid = TextAt(created.object, "metadata.uid");
  EXPECT_FALSE(uid.empty());

  const json::array operations = {{{"op", "test"}, {"path", "/metadata/uid"}, {"value", uid}},
                                  {{"op", "replace"}, {"path", "/spec/n"}, {"value", 2}}};
  const Result patched = Call([&](kube::Client& client, CancelToken cancel) {
    return client.PatchJson(kPods, kSpace, "a", operations, kCall, cancel);
  });
  ASSERT_TRUE(patched.ok()) << patched.message;
  EXPECT_EQ(*At(patched.object, "spec.n"), 2);

  json::object replacement = patched.object;
  SetAt(replacement, "spec.n", 3);
  const auto replace = [&](kube::Client& client, CancelToken cancel) {
    return client.Replace(kPods, kSpace, "a", replacement, kCall, cancel);
  };
  EXPECT_TRUE(Call(replace).ok());
  const Result late = Call(replace);
  EXPECT_TRUE(late.Is(409));
  EXPECT_EQ(late.reason, "Conflict");

  EXPECT_EQ(*At(Call(Get("a")).object, "spec.n"), 3);
  kube::DeleteOptions options;
  options.uid = "another";
  const auto remove = [&](kube::Client& client, CancelToken cancel) {
    return client.Delete(kPods, kSpace, "a", options, kCall, cancel);
  };
  EXPECT_TRUE(Call(remove).Is(409));
  options.uid = uid;
  EXPECT_TRUE(Call(remove).ok());
  const Result gone = Call(remove);
  EXPECT_TRUE(gone.Is(404));
  EXPECT_EQ(gone.reason, "NotFound");
}

TEST_F(KubeClientTest, Delete_HasAllItsOptionsInTheBody) {
  kube::DeleteOptions options{"u", "7", true};
  Call([&](kube::Client& client, CancelToken cancel) {
    return client.Delete(kPods, kSpace, "a", options, kCall, cancel);
  });
  const auto log = server_.log();
  ASSERT_EQ(log.size(), 1u);
  EXPECT_TRUE(log[0].query.empty());
  EXPECT_THAT(log[0].body, HasSubstr(R"("preconditions":{"uid":"u","resourceVersion":"7"})"));
  EXPECT_THAT(log[0].body, HasSubstr(R"("propagationPolicy":"Foreground")"));
}

TEST_F(KubeClientTest, NamesThatWouldAskForSomethingElse_AreNotSent) {
  for (const char* name : {"", "..", "a/b", "a?x", "a b"}) {
    const Result result = Call(Get(name));
    EXPECT_EQ(result.outcome, Outcome::kNotSent) << name;
  }
  EXPECT_EQ(server_.Count(""), 0u);
}

TEST_F(KubeClientTest, Refusals_AreOneRequestEach_WithTheServersWords) {
  for (const int status : {400, 403, 409, 410, 422, 429}) {
    server_.ClearLog();
    server_.Script({.verb = "create",
                    .status = status,
                    .reason = "R",
                    .message = "words",
                    .retry_after = "7"});
    const Result result = Call(Create("a"));
    EXPECT_TRUE(result.Is(status)) << status;
    EXPECT_EQ(result.reason, "R");
    EXPECT_EQ(result.message, "words");
    EXPECT_EQ(result.retry_after, std::optional<Duration>(seconds(7)));
    EXPECT_EQ(server_.Count("create"), 1u) << status;
  }
}

TEST_F(KubeClientTest, WriteThatTheServerStumbledOver_IsUnknownAndNotRepeated) {
  server_.Script({.verb = "create", .status = 504});
  const Result result = Call(Create("a"));
  EXPECT_EQ(result.outcome, Outcome::kUnknown);
  EXPECT_EQ(result.http_status, 504);
  EXPECT_EQ(server_.Count("create"), 1u);
}

TEST_F(KubeClientTest, WriteCutBeforeItsAnswer_IsUnknownAndNotRepeated) {
  for (const What what : {What::kCut, What::kCutAfter}) {
    server_.ClearLog();
    server_.Script({.verb = "create", .what = what});
    const std::string name = what == What::kCut ? "cut" : "cut-after";
    EXPECT_EQ(Call(Create(name)).outcome, Outcome::kUnknown);
    EXPECT_EQ(server_.Count("create"), 1u);
    EXPECT_EQ(server_.Find(kPods, kSpace, name).has_value(), what == What::kCutAfter);
  }
}

// The same over a connection that was idle: that the server may just have closed it is no reason
// to repeat a write that was handed over.
TEST_F(KubeClientTest, WriteCutOnAUsedConnection_IsUnknownAndNotRepeated) {
  ASSERT_TRUE(Call(Create("a")).ok());
  server_.Script({.verb = "create", .what = What::kCutAfter});
  EXPECT_EQ(Call(Create("b")).outcome, Outcome::kUnknown);
  EXPECT_EQ(server_.Count("create"), 2u);
  EXPECT_EQ(server_.connections(), 1);
}

TEST_F(KubeClientTest, SilentServer_EndsWithTheBound) {
  server_.Script({.what = What::kSilence, .times = -1});
  const Result write = Call(Create("a", seconds(1)));
  EXPECT_EQ(write.outcome, Outcome::kUnknown);
  EXPECT_THAT(write.message, HasSubstr("no answer in time"));
  EXPECT_EQ(Call(Get("a", seconds(1))).outcome, Outcome::kUnknown);
}

TEST_F(KubeClientTest, AnswerThatStopsInTheMiddle_EndsWithTheBound) {
  server_.Script(
      {.what = What::kRawSilence, .raw = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":"});
  EXPECT_EQ(Call(Create("a", seconds(1))).outcome, Outcome::kUnknown);
}

TEST_F(KubeClientTest, UnreachableServer_IsNotSent_AndSentOnceWhenItIsBack) {
  server_.Down();
  const Result result = Call(Create("a", milliseconds(500)));
  EXPECT_EQ(result.outcome, Outcome::kNotSent);
  EXPECT_THAT(result.message, HasSubstr("connect"));
  auto waiting = Begin(Create("b"));
  server_.Up();
  EXPECT_TRUE(End(std::move(waiting)).ok());
  EXPECT_EQ(server_.Count("create"), 1u);
}

TEST_F(KubeClientTest, Reads_GoAgainThroughCutsAndBusyServers) {
  server_.Add(kPods, kSpace, Pod("a"));
  server_.Script({.verb = "get", .what = What::kCut});
  server_.Script({.verb = "get", .status = 500});
  server_.Script({.verb = "get", .status = 429, .retry_after = "0"});
  server_.Script({.verb = "get", .what = What::kRaw, .raw = "HTTP/1.1 200 OK\r\nContent-Le"});
  EXPECT_TRUE(Call(Get("a")).ok());
  EXPECT_EQ(server_.Count("get"), 5u);
}

TEST_F(KubeClientTest, ReadThatIsRefusedUntilTheBound_EndsWithTheRefusal) {
  server_.Script({.verb = "get", .times = -1, .status = 503});
  const Result result = Call(Get("a", seconds(1)));
  EXPECT_TRUE(result.Is(503));
  EXPECT_GE(server_.Count("get"), 2u);
}

TEST_F(KubeClientTest, HostileAnswers_AreUnknownAndNotAskedForAgain) {
  const std::string deep(200, '[');
  for (const std::string& raw :
       {std::string("this is no HTTP at all\r\n\r\n"), std::string("HTTP/1.1 100 Continue\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\nxx"),
        "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + deep,
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull")}) {
    server_.ClearLog();
    server_.Script({.what = What::kRaw, .raw = raw});
    const Result result = Call(Get("a"));
    EXPECT_EQ(result.outcome, Outcome::kUnknown) << raw.substr(0, 80);
    EXPECT_EQ(server_.Count("get"), 1u) << raw.substr(0, 80);
  }
}

TEST_F(KubeClientTest, Redirect_IsNotFollowed) {
  server_.Script({.what = What::kRaw,
                  .raw = "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"});
  EXPECT_TRUE(Call(Get("a")).Is(302));
  EXPECT_EQ(server_.Count(""), 1u);
}

// --- the token ---

TEST_F(KubeClientTest, Unauthorized_ReadsTheTokenAgainOnce) {
  server_.SetToken("new");
  SetFile("/token", "old\n");
  kube::Access access = server_.access();
  access.token = "old";
  access.token_file = "/token";
  Connect(access);
  EXPECT_TRUE(Call(Create("a")).Is(401));
  EXPECT_EQ(server_.Count("create"), 2u);
  SetFile("/token", "new\n");
  EXPECT_TRUE(Call(Create("a")).ok());
  EXPECT_EQ(server_.Count("create"), 4u);
  EXPECT_EQ(server_.log().back().authorization, "Bearer new");
}

// --- connections ---

TEST_F(KubeClientTest, CallsOneAfterTheOther_ShareAConnection) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Call(Create("p" + std::to_string(i))).ok());
  EXPECT_EQ(server_.connections(), 1);
}

TEST_F(KubeClientTest, IdleConnectionThatTheServerClosed_IsNoticedBeforeAWriteIsSent) {
  ASSERT_TRUE(Call(Create("a")).ok());
  ASSERT_TRUE(server_.CutIdle());
  EXPECT_TRUE(Call(Create("b")).ok());
  EXPECT_EQ(server_.connections(), 2);
}

TEST_F(KubeClientTest, RestartedServer_IsServedAgainByTheNextCall) {
  ASSERT_TRUE(Call(Create("a")).ok());
  server_.Down();
  server_.Up();
  EXPECT_TRUE(Call(Create("b")).ok());
}

TEST_F(KubeClientTest, ConnectionsInUse_AreBounded_AndWaitersHaveTheirTurn) {
  kube::PoolLimits limits;
  limits.max_in_use = 2;
  Connect(server_.access(), limits);
  server_.Script({.verb = "create", .what = What::kHold, .times = -1});
  std::vector<std::future<Result>> calls;
  for (int i = 0; i < 4; ++i) calls.push_back(Begin(Create("p" + std::to_string(i))));
  ASSERT_TRUE(server_.AwaitHeld(2));
  EXPECT_EQ(server_.connections(), 2);
  const Result late = Call(Create("late", milliseconds(50)));
  EXPECT_EQ(late.outcome, Outcome::kNotSent);
  EXPECT_THAT(late.message, HasSubstr("in use"));
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(server_.AwaitHeld(1));
    server_.Release();
  }
  for (auto& call : calls) EXPECT_TRUE(End(std::move(call)).ok());
  EXPECT_EQ(server_.connections(), 2);
}

TEST_F(KubeClientTest, IdleConnections_AreFewAndNotKeptForLong) {
  kube::PoolLimits limits;
  limits.max_idle = 1;
  limits.max_idle_time = seconds(3600);
  Connect(server_.access(), limits);
  server_.Script({.verb = "create", .what = What::kHold, .times = 3});
  std::vector<std::future<Result>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(Begin(Create("p" + std::to_string(i))));
  ASSERT_TRUE(server_.AwaitHeld(3));
  EXPECT_EQ(server_.open_connections(), 3u);
  for (int i = 0; i < 3; ++i) server_.Release();
  for (auto& call : calls) EXPECT_TRUE(End(std::move(call)).ok());
  EXPECT_TRUE(server_.Await([&] { return server_.open_connections() == 1; }));
  limits.max_idle_time = milliseconds(5);
  Connect(server_.access(), limits);
  EXPECT_TRUE(Call(Get("p0")).ok());
  EXPECT_TRUE(server_.Await([&] { return server_.open_connections() == 0; }));
}

// --- cancelling ---

TEST_F(KubeClientTest, CancelledBeforeItBegins_NothingIsSent) {
  const Result result = Call([](kube::Client& client, CancelToken) {
    CancelSource cancelled;
    cancelled.Cancel();
    return client.Create(kPods, kSpace, Pod("a"), kCall, cancelled.token());
  });
  EXPECT_EQ(result.outcome, Outcome::kNotSent);
  EXPECT_EQ(server_.Count(""), 0u);
}

TEST_F(KubeClientTest, CancelledWhileTheServerThinks_IsUnknown) {
  server_.Script({.verb = "create", .what = What::kHold});
  auto call = Begin(Create("a"));
  ASSERT_TRUE(server_.AwaitHeld(1));
  Cancel();
  const Result result = End(std::move(call));
  EXPECT_EQ(result.outcome, Outcome::kUnknown);
  EXPECT_EQ(result.message, "cancelled");
  server_.Release();
}

TEST_F(KubeClientTest, CancelledWhileTheServerCanNotBeReached_IsNotSent) {
  server_.Down();
  auto call = Begin(Create("a"));
  Cancel();
  EXPECT_EQ(End(std::move(call)).outcome, Outcome::kNotSent);
}

TEST_F(KubeClientTest, CancelledWhileItWaitsForAConnection_IsNotSent) {
  kube::PoolLimits limits;
  limits.max_in_use = 1;
  Connect(server_.access(), limits);
  server_.Script({.verb = "create", .what = What::kHold});
  auto first = Begin(Create("a"));
  ASSERT_TRUE(server_.AwaitHeld(1));
  auto second = Begin(Create("b"));
  Cancel();
  EXPECT_EQ(End(std::move(second)).outcome, Outcome::kNotSent);
  server_.Release();
  EXPECT_TRUE(End(std::move(first)).ok());
  EXPECT_EQ(server_.Count("create"), 1u);
}

TEST_F(KubeClientTest, CancelledWhileAnAnswerBreaksOff_IsUnknown) {
  server_.Script(
      {.what = What::kRawSilence, .raw = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"});
  auto call = Begin(Create("a"));
  ASSERT_TRUE(server_.AwaitCount("create", "pods", 1));
  Cancel();
  EXPECT_EQ(End(std::move(call)).outcome, Outcome::kUnknown);
}

TEST_F(KubeClientTest, CancelledButItAlsoSucceeded_TellsTheSuccessOrUnknown) {
  for (int i = 0; i < 20; ++i) {
    server_.Script({.verb = "create", .what = What::kHoldAnswer});
    const std::string name = "p" + std::to_string(i);
    auto call = Begin(Create(name));
    ASSERT_TRUE(server_.AwaitHeld(1));
    server_.Release();
    Cancel();
    const Result result = End(std::move(call));
    EXPECT_TRUE(result.ok() || result.outcome == Outcome::kUnknown);
    EXPECT_TRUE(server_.Find(kPods, kSpace, name));
    Cancel();  // long after: of no consequence
  }
}

// --- lists ---

TEST_F(KubeClientTest, List_JoinsPages) {
  server_.WithStore([](ObjectStore& store) {
    for (int i = 0; i < 1201; ++i) store.Create(kPods, kSpace, Pod("p" + std::to_string(i)));
  });
  const Result result = Call(List());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.object.at("items").as_array().size(), 1201u);
  EXPECT_EQ(server_.Count("list"), 3u);
  const Result one = Call(List("app in (p7,p8),app!=p8"));
  EXPECT_EQ(one.object.at("items").as_array().size(), 1u);
}

TEST_F(KubeClientTest, List_ThatExpiresBetweenPages_BeginsAgainOnce) {
  server_.WithStore([](ObjectStore& store) {
    for (int i = 0; i < 600; ++i) store.Create(kPods, kSpace, Pod("p" + std::to_string(i)));
  });
  server_.Script({.verb = "list", .what = What::kHold});
  auto call = Begin(List());
  ASSERT_TRUE(server_.AwaitHeld(1));
  server_.Script({.verb = "list", .status = 410, .reason = "Expired"});
  server_.Release();
  const Result result = End(std::move(call));
  EXPECT_TRUE(result.ok()) << result.message;
  EXPECT_EQ(server_.Count("list"), 4u);
  server_.Script({.verb = "list", .status = 410, .reason = "Expired"});
  EXPECT_TRUE(Call(List()).Is(410));  // the first page of all: an answer like any other
}

TEST_F(KubeClientTest, ClockOffset_ComesFromTheAnswersDates) {
  EXPECT_FALSE(client_->clock_offset());
  server_.SetClockOffset(std::chrono::hours(1));
  Call(Get("a"));
  std::optional<Duration> offset;
  OnLoop([&] { offset = client_->clock_offset(); });
  ASSERT_TRUE(offset);
  EXPECT_GT(*offset, std::chrono::hours(1) - seconds(2));
  EXPECT_LT(*offset, std::chrono::hours(1) + seconds(2));
}

}  // namespace
}  // namespace sandbroker::testing

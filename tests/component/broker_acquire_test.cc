// Acquire, receipts, handles and leases of the Broker, each with time and races in the test's hand.
#include "lib/base/status.h"
#include "tests/component/broker_fixture.h"

namespace sandbroker::testing {
namespace {

using broker::AcquireSpec;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class BrokerAcquire : public BrokerFixture {
 protected:
  static AcquireSpec WithId(const std::string& id) {
    AcquireSpec spec;
    spec.request_id = id;
    return spec;
  }
  static AcquireSpec WithTtl(Duration ttl) {
    AcquireSpec spec;
    spec.lease.ttl = ttl;
    return spec;
  }
};

TEST_F(BrokerAcquire, Handle_OfAnotherTenantIsNotFoundOnEveryCall) {
  const std::string handle = AcquireHandle();
  EXPECT_TRUE(broker_.Get(me_, handle).ok());
  EXPECT_EQ(ReasonOf(broker_.Get(other_, handle).status()), Reason::kSandboxNotFound);
  EXPECT_EQ(ReasonOf(Get(broker_.Renew(other_, {handle}))[0].status), Reason::kSandboxNotFound);
  EXPECT_EQ(ReasonOf(Get(broker_.Release(other_, handle)).status()), Reason::kSandboxNotFound);
  broker::StartSpec spec;
  spec.handle = handle;
  RecordingObserver observer;
  EXPECT_EQ(ReasonOf(broker_.Start(other_, spec, &observer).status()), Reason::kSandboxNotFound);
  EXPECT_TRUE(broker_.List(other_, {}, 10, "")->sandboxes.empty());
  EXPECT_EQ(backend_.live(), 1u);
}

TEST_F(BrokerAcquire, Release_TwiceSaysAlreadyGoneAndLaterCallsSayGone) {
  const std::string handle = AcquireHandle();
  EXPECT_FALSE(Get(broker_.Release(me_, handle))->already_gone);
  EXPECT_TRUE(Get(broker_.Release(me_, handle))->already_gone);
  EXPECT_EQ(ReasonOf(broker_.Get(me_, handle).status()), Reason::kSandboxGone);
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerAcquire, Release_ReportsWhatStillRanAndEndsIt) {
  const std::string handle = AcquireHandle();
  RecordingObserver observer;
  Start(handle, &observer);
  const auto released = Get(broker_.Release(me_, handle));
  ASSERT_TRUE(released.ok());
  EXPECT_EQ(released->ended_executions, std::vector<std::string>{"e1"});
  ASSERT_TRUE(observer.ended);
  EXPECT_EQ(observer.ended->sandbox_gone().cause(), "released");
}

TEST_F(BrokerAcquire, Release_ReportsExecutionsThatLeftProcessesBehind) {
  const std::string handle = AcquireHandle();
  agent::Report report;
  report.add_running_ids("runs");
  report.add_leftover_ids("left-a-daemon");
  backend_.only_link()->report = report;
  EXPECT_EQ(Get(broker_.Release(me_, handle))->ended_executions,
            (std::vector<std::string>{"runs", "left-a-daemon"}));
}

// T97: a retried create must not make two.
TEST_F(BrokerAcquire, T97_RepeatedRequestId_GetsTheSameSandbox) {
  const std::string handle = AcquireHandle(WithId("r1"));
  const auto again = Acquire(WithId("r1"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->sandbox.handle, handle);
  EXPECT_EQ(again->source, broker::Source::kRepeated);
  EXPECT_EQ(backend_.acquired(), 1u);
  AcquireSpec changed = WithId("r1");
  changed.labels["a"] = "b";
  EXPECT_EQ(ReasonOf(Acquire(changed).status()), Reason::kRequestIdReused);
  // Another tenant's id of the same name is another id.
  EXPECT_TRUE(Get(broker_.Acquire(other_, WithId("r1"), CancelToken())).ok());
  EXPECT_EQ(backend_.acquired(), 2u);
}

TEST_F(BrokerAcquire, RepeatedRequestId_AfterReleaseIsGoneNeverASecondOne) {
  const std::string handle = AcquireHandle(WithId("r1"));
  ASSERT_TRUE(Get(broker_.Release(me_, handle)).ok());
  EXPECT_EQ(ReasonOf(Acquire(WithId("r1")).status()), Reason::kSandboxGone);
  EXPECT_EQ(backend_.acquired(), 1u);
}

TEST_F(BrokerAcquire, ConcurrentCallsWithOneId_ShareOneSandbox) {
  backend_.hold_acquires = true;
  const auto first = Begin(broker_.Acquire(me_, WithId("r1"), CancelToken()));
  const auto second = Begin(broker_.Acquire(me_, WithId("r1"), CancelToken()));
  EXPECT_EQ(backend_.waiting(), 1u);
  backend_.Grant();
  scheduler_.RunPosted();
  ASSERT_TRUE(first->has_value() && second->has_value());
  EXPECT_EQ((**first)->sandbox.handle, (**second)->sandbox.handle);
  EXPECT_EQ((**second)->source, broker::Source::kRepeated);
  EXPECT_EQ(backend_.acquired(), 1u);
}

TEST_F(BrokerAcquire, CancelWhileQueued_OpensTheReceiptForTheNextTry) {
  backend_.hold_acquires = true;
  CancelSource cancel;
  const auto first = Begin(broker_.Acquire(me_, WithId("r1"), cancel.token()));
  cancel.Cancel();
  scheduler_.RunPosted();
  ASSERT_TRUE(first->has_value());
  EXPECT_EQ(ReasonOf((*first)->status()), Reason::kCancelled);
  backend_.hold_acquires = false;
  EXPECT_TRUE(Acquire(WithId("r1")).ok());
  EXPECT_EQ(backend_.live(), 1u);
}

TEST_F(BrokerAcquire, CancelledWhileItSucceeds_LeavesNoSandboxBehind) {
  CancelSource cancel;
  backend_.on_link = [](FakeAgentLink& link) { link.hold_binds = true; };
  AcquireSpec spec;
  spec.env.push_back({"A", "b"});
  const auto acquire = Begin(broker_.Acquire(me_, spec, cancel.token()));
  EXPECT_EQ(backend_.live(), 1u);
  cancel.Cancel();
  backend_.only_link()->AnswerBinds(absl::OkStatus());
  scheduler_.RunPosted();
  ASSERT_TRUE(acquire->has_value());
  EXPECT_EQ(ReasonOf((*acquire)->status()), Reason::kCancelled);
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerAcquire, CancelWhileWaitingForAnotherCall_LeavesThatCallAlone) {
  backend_.hold_acquires = true;
  const auto first = Begin(broker_.Acquire(me_, WithId("r1"), CancelToken()));
  CancelSource cancel;
  const auto second = Begin(broker_.Acquire(me_, WithId("r1"), cancel.token()));
  cancel.Cancel();
  scheduler_.RunPosted();
  ASSERT_TRUE(second->has_value());
  EXPECT_EQ(ReasonOf((*second)->status()), Reason::kCancelled);
  backend_.Grant();
  scheduler_.RunPosted();
  EXPECT_TRUE(first->has_value() && (*first)->ok());
}

TEST_F(BrokerAcquire, EnvThatCannotBeBound_GivesTheSandboxBack) {
  backend_.on_link = [](FakeAgentLink& link) { link.hold_binds = true; };
  AcquireSpec spec;
  spec.env.push_back({"A", "b"});
  const auto acquire = Begin(broker_.Acquire(me_, spec, CancelToken()));
  backend_.only_link()->AnswerBinds(absl::UnavailableError("link lost"));
  scheduler_.RunPosted();
  ASSERT_TRUE(acquire->has_value());
  EXPECT_EQ(ReasonOf((*acquire)->status()), Reason::kAgentUnreachable);
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerAcquire, IdleLease_IsLookedAtThenTakenBack) {
  const std::string handle = AcquireHandle(WithTtl(seconds(30)));  // until 40 s, look at 45 s
  scheduler_.Advance(seconds(41));
  EXPECT_TRUE(broker_.Get(me_, handle).ok());  // not refused before anybody has looked
  EXPECT_EQ(backend_.live(), 1u);
  scheduler_.Advance(seconds(5));
  EXPECT_EQ(backend_.live(), 0u);
  EXPECT_EQ(ReasonOf(broker_.Get(me_, handle).status()), Reason::kLeaseExpired);
}

TEST_F(BrokerAcquire, RenewalBetweenEndAndLook_KeepsTheSandbox) {
  const std::string handle = AcquireHandle(WithTtl(seconds(30)));
  scheduler_.Advance(seconds(42));
  EXPECT_TRUE(Get(broker_.Renew(me_, {handle}))[0].status.ok());
  scheduler_.Advance(seconds(20));
  EXPECT_TRUE(broker_.Get(me_, handle).ok());
}

TEST_F(BrokerAcquire, LinkRestoredBeforeTheBackstop_IsLookedAtAgain) {
  AcquireHandle(WithTtl(seconds(30)));
  const auto link = backend_.only_link();
  broker_.OnLinkLost("uid-1", absl::UnavailableError("dropped"));
  scheduler_.Advance(seconds(50));  // the look at 45 s found no link
  agent::Report busy;
  busy.set_running(1);
  link->report = busy;
  broker_.OnLinkRestored("uid-1", link);
  scheduler_.Advance(minutes(30));
  EXPECT_EQ(backend_.live(), 1u);
}

TEST_F(BrokerAcquire, PageToken_IsNoHandle) {
  AcquireHandle();
  AcquireHandle();
  const auto page = broker_.List(me_, {}, 1, "");
  ASSERT_FALSE(page->next_token.empty());
  EXPECT_EQ(ReasonOf(broker_.Get(me_, page->next_token).status()), Reason::kSandboxNotFound);
  EXPECT_FALSE(broker_.List(other_, {}, 1, page->next_token).ok());
}

TEST_F(BrokerAcquire, T108_RenewedLease_LivesOnAndNeverShortens) {
  const std::string handle = AcquireHandle(WithTtl(seconds(30)));
  const WallTime before = broker_.Get(me_, handle)->lease.expire;
  scheduler_.Advance(seconds(20));
  const auto renewed = Get(broker_.Renew(me_, {handle, "forged"}));
  EXPECT_TRUE(renewed[0].status.ok());
  EXPECT_GE(renewed[0].lease.expire, before);
  EXPECT_EQ(ReasonOf(renewed[1].status), Reason::kSandboxNotFound);
  scheduler_.Advance(seconds(30));
  EXPECT_TRUE(broker_.Get(me_, handle).ok());
}

// T110: a busy but silent command keeps its sandbox.
TEST_F(BrokerAcquire, T110_RunningWithNobodyAttached_KeepsTheLease) {
  const std::string handle = AcquireHandle(WithTtl(seconds(30)));
  agent::Report busy;
  busy.set_running(1);
  backend_.only_link()->report = busy;
  scheduler_.Advance(minutes(10));
  EXPECT_EQ(backend_.live(), 1u);
  backend_.only_link()->report = agent::Report();
  scheduler_.Advance(minutes(2));
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerAcquire, KeepWhileRunningOff_TakesItBackAllTheSame) {
  AcquireSpec spec = WithTtl(seconds(30));
  spec.lease.keep_while_running = false;
  AcquireHandle(spec);
  agent::Report busy;
  busy.set_running(1);
  backend_.only_link()->report = busy;
  scheduler_.Advance(minutes(1));
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerAcquire, KeepWhileRunningOff_AnOpenStreamStillKeepsIt) {
  AcquireSpec spec = WithTtl(seconds(30));
  spec.lease.keep_while_running = false;
  const std::string handle = AcquireHandle(spec);
  RecordingObserver observer;
  Start(handle, &observer);
  scheduler_.Advance(minutes(10));
  EXPECT_EQ(backend_.live(), 1u);
  EXPECT_FALSE(observer.ended);
}

// T102: what took too long to hand out to be of use is not handed out.
TEST_F(BrokerAcquire, T102_TooLittleLeftWhenReady_IsGivenBack) {
  backend_.on_link = [](FakeAgentLink& link) { link.hold_binds = true; };
  AcquireSpec spec = WithTtl(seconds(30));
  spec.lease.max_lifetime = seconds(60);
  spec.min_remaining = seconds(55);
  spec.env.push_back({"A", "b"});
  const auto early = Begin(broker_.Acquire(me_, spec, CancelToken()));
  scheduler_.Advance(seconds(5));
  backend_.only_link()->AnswerBinds(absl::OkStatus());
  scheduler_.RunPosted();
  ASSERT_TRUE(early->has_value());
  EXPECT_TRUE((*early)->ok()) << (*early)->status();
  const auto late = Begin(broker_.Acquire(me_, spec, CancelToken()));
  scheduler_.Advance(seconds(6));
  backend_.link("uid-2")->AnswerBinds(absl::OkStatus());
  scheduler_.RunPosted();
  ASSERT_TRUE(late->has_value());
  EXPECT_EQ(ReasonOf((*late)->status()), Reason::kNotReady);
  EXPECT_EQ(backend_.live(), 1u);
}

TEST_F(BrokerAcquire, UnreachableAgent_IsLeftToTheBackstop) {
  AcquireHandle(WithTtl(seconds(30)));
  backend_.only_link()->report = absl::UnavailableError("no answer");
  scheduler_.Advance(minutes(5));
  EXPECT_EQ(backend_.live(), 1u);
  scheduler_.Advance(minutes(7));
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerAcquire, MaxLifetime_EndsWhatRunsAsLeaseExpired) {
  AcquireSpec spec = WithTtl(minutes(10));
  spec.lease.max_lifetime = minutes(20);
  const std::string handle = AcquireHandle(spec);
  RecordingObserver observer;
  Start(handle, &observer);
  LastStream()->SayReady();
  scheduler_.Advance(minutes(16));
  EXPECT_TRUE(observer.warnings.empty());
  scheduler_.Advance(minutes(3));
  EXPECT_EQ(observer.warnings, (std::vector<std::string>{"LEASE_ENDING", "LEASE_ENDING"}));
  EXPECT_FALSE(observer.ended);
  scheduler_.Advance(minutes(2));
  ASSERT_TRUE(observer.ended);
  EXPECT_TRUE(observer.ended->has_lease_expired());
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerAcquire, Backstop_IsToldToTheAgent) {
  AcquireHandle(WithTtl(minutes(30)));  // until 40 min, backstop 30 min beyond
  EXPECT_EQ(backend_.only_link()->backstop(), scheduler_.Now() + minutes(70));
}

TEST_F(BrokerAcquire, ReleaseMatching_TakesOnlyWhatTheSelectorNames) {
  AcquireSpec ci;
  ci.labels["app"] = "ci";
  AcquireHandle(ci);
  scheduler_.Advance(seconds(10));
  const WallTime between = scheduler_.WallNow();
  scheduler_.Advance(seconds(10));
  AcquireHandle(ci);
  AcquireHandle();
  const LabelSelector selector = *LabelSelector::Parse("app=ci", "label_selector");
  EXPECT_EQ(Get(broker_.ReleaseMatching(me_, selector, std::nullopt, true))->size(), 2u);
  EXPECT_EQ(backend_.live(), 3u);
  EXPECT_EQ(Get(broker_.ReleaseMatching(me_, selector, between, false))->size(), 1u);
  EXPECT_EQ(backend_.live(), 2u);
  EXPECT_EQ(Get(broker_.ReleaseMatching(other_, selector, std::nullopt, false))->size(), 0u);
  EXPECT_EQ(Get(broker_.ReleaseMatching(me_, selector, std::nullopt, false))->size(), 1u);
  EXPECT_EQ(backend_.live(), 1u);
}

TEST_F(BrokerAcquire, List_PagesInOrderOfAcquire) {
  for (int i = 0; i < 5; ++i) {
    AcquireHandle();
    scheduler_.Advance(seconds(1));
  }
  std::vector<WallTime> seen;
  std::string token;
  do {
    const auto page = broker_.List(me_, {}, 2, token);
    ASSERT_TRUE(page.ok());
    for (const auto& sandbox : page->sandboxes) seen.push_back(sandbox.acquired);
    token = page->next_token;
  } while (!token.empty());
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(DetailOf(broker_.List(me_, {}, 2, "forged").status()).field, "page_token");
}

TEST_F(BrokerAcquire, Draining_RefusesNewWorkAndTellsOpenStreams) {
  const std::string handle = AcquireHandle();
  RecordingObserver observer;
  Start(handle, &observer);
  broker_.Drain();
  EXPECT_FALSE(observer.failed);
  EXPECT_EQ(broker_.open_executions(), 1u);
  broker_.FailOpenExecutions();
  ASSERT_TRUE(observer.failed);
  EXPECT_EQ(ReasonOf(*observer.failed), Reason::kServerDraining);
  EXPECT_EQ(ReasonOf(Acquire().status()), Reason::kServerDraining);
  broker::StartSpec spec;
  spec.handle = handle;
  EXPECT_EQ(ReasonOf(broker_.Start(me_, spec, &observer).status()), Reason::kServerDraining);
}

}  // namespace
}  // namespace sandbroker::testing

// What the Broker promises only once it is kept, and what it makes of an earlier broker's sandboxes
// and receipts.
#include "lib/base/status.h"
#include "tests/component/broker_fixture.h"

namespace sandbroker::testing {
namespace {

using broker::AcquireSpec;
using broker::Claim;
using broker::Receipt;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class BrokerAdopt : public BrokerFixture {
 protected:
  Claim MakeClaim(Duration left, const std::string& receipt = "") {
    Claim claim;
    claim.tenant = me_.tenant;
    claim.labels = {{"app", "ci"}};
    claim.lease.ttl = minutes(9);
    claim.acquired = scheduler_.WallNow() - hours(1);
    claim.until = scheduler_.WallNow() + left;
    claim.receipt = receipt;
    claim.token = receipt.empty() ? "" : "token of the dead";
    return claim;
  }
  std::string HandleOf(const std::string& uid) {
    return broker::EncodeHandle({me_.tenant, 't', "local", "default", uid, "boot-" + uid},
                                Settings().handle_key);
  }
  // A receipt as a broker that died at it has left it.
  std::string LeavePending(const AcquireSpec& spec) {
    const std::string key = broker::ReceiptKey(me_, spec.request_id);
    receipts_.all()[key] = {Receipt::State::kPending,
                            broker::RequestHash(spec),
                            "token of the dead",
                            "dead",
                            scheduler_.WallNow() + minutes(2),
                            ""};
    return key;
  }
  static AcquireSpec WithId(const std::string& id) {
    AcquireSpec spec;
    spec.request_id = id;
    return spec;
  }
};

TEST_F(BrokerAdopt, Acquire_IsNeitherAnsweredNorListedBeforeItIsKept) {
  backend_.hold_remembering = true;
  const auto acquire = Begin(broker_.Acquire(me_, {}, CancelToken()));
  EXPECT_FALSE(acquire->has_value());
  EXPECT_TRUE(broker_.List(me_, {}, 10, "")->sandboxes.empty());
  EXPECT_EQ(backend_.only_link()->backstop(), kNever);  // nothing is promised to the agent either
  backend_.FinishRemembering();
  scheduler_.RunPosted();
  ASSERT_TRUE(acquire->has_value() && (*acquire)->ok());
  EXPECT_EQ(backend_.claim("uid-1")->until, (**acquire)->sandbox.lease.expire);
  EXPECT_EQ(broker_.List(me_, {}, 10, "")->sandboxes.size(), 1u);
}

TEST_F(BrokerAdopt, Acquire_ThatCannotBeKeptIsTakenBackBeforeItGetsItsEnv) {
  backend_.remember_error = absl::InternalError("no space left");
  AcquireSpec spec;
  spec.env.push_back({"SECRET", "x"});
  std::shared_ptr<FakeAgentLink> link;
  backend_.on_link = [&](FakeAgentLink& made) { made.hold_binds = true; };
  const auto acquired = Acquire(spec);
  EXPECT_EQ(acquired.status(), *backend_.remember_error);
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerAdopt, SandboxThatEndsWhileItIsKept_IsNotHandedOut) {
  backend_.hold_remembering = true;
  const auto acquire = Begin(broker_.Acquire(me_, {}, CancelToken()));
  backend_.Kill("uid-1", "agent_lost");
  backend_.FinishRemembering();
  scheduler_.RunPosted();
  ASSERT_TRUE(acquire->has_value());
  EXPECT_EQ(ReasonOf((*acquire)->status()), Reason::kAgentUnreachable);
}

TEST_F(BrokerAdopt, Renewal_AnswersAfterItsWriteWithWhatWasWritten) {
  const std::string handle = AcquireHandle();
  const WallTime before = broker_.Get(me_, handle)->lease.expire;
  scheduler_.Advance(minutes(5));
  backend_.hold_remembering = true;
  const auto renewal = Begin(broker_.Renew(me_, {handle}));
  EXPECT_FALSE(renewal->has_value());
  EXPECT_EQ(broker_.Get(me_, handle)->lease.expire, before);
  backend_.FinishRemembering();
  scheduler_.RunPosted();
  ASSERT_TRUE(renewal->has_value());
  EXPECT_TRUE((**renewal)[0].status.ok());
  EXPECT_GT((**renewal)[0].lease.expire, before);
  EXPECT_EQ((**renewal)[0].lease.expire, backend_.claim("uid-1")->until);
}

TEST_F(BrokerAdopt, RenewalThatCannotBeWritten_SaysSoAndMovesNothing) {
  const std::string handle = AcquireHandle();
  const WallTime before = broker_.Get(me_, handle)->lease.expire;
  scheduler_.Advance(minutes(5));
  backend_.remember_error = absl::InternalError("no space left");
  EXPECT_EQ(Get(broker_.Renew(me_, {handle}))[0].status, *backend_.remember_error);
  // At once again: not written in a tight loop, and no less an error.
  EXPECT_EQ(Get(broker_.Renew(me_, {handle}))[0].status, *backend_.remember_error);
  EXPECT_EQ(broker_.Get(me_, handle)->lease.expire, before);
  backend_.remember_error.reset();
  scheduler_.Advance(seconds(2));
  EXPECT_TRUE(Get(broker_.Renew(me_, {handle}))[0].status.ok());
  EXPECT_GT(broker_.Get(me_, handle)->lease.expire, before);
}

TEST_F(BrokerAdopt, RenewalUnderWay_IsNotOvertakenByTheLook) {
  AcquireSpec spec;
  spec.lease.ttl = seconds(30);  // until 40 s, look at 45 s
  const std::string handle = AcquireHandle(spec);
  scheduler_.Advance(seconds(44));
  backend_.hold_remembering = true;
  const auto renewal = Begin(broker_.Renew(me_, {handle}));
  scheduler_.Advance(seconds(10));
  EXPECT_EQ(backend_.live(), 1u);
  backend_.hold_remembering = false;
  backend_.FinishRemembering();
  scheduler_.RunPosted();
  EXPECT_TRUE(renewal->has_value());
  EXPECT_TRUE(broker_.Get(me_, handle).ok());
}

TEST_F(BrokerAdopt, StartThatFindsAThinLease_WritesBeforeItRuns) {
  AcquireSpec spec;
  spec.lease.ttl = seconds(30);
  const std::string handle = AcquireHandle(spec);
  scheduler_.Advance(seconds(37));  // 3 s are left
  backend_.hold_remembering = true;
  RecordingObserver observer;
  Start(handle, &observer);
  scheduler_.RunPosted();
  EXPECT_TRUE(backend_.only_link()->streams().empty());
  backend_.FinishRemembering();
  scheduler_.RunPosted();
  ASSERT_EQ(backend_.only_link()->streams().size(), 1u);
  LastStream()->SayReady();
  EXPECT_EQ(observer.readies, 1);
}

TEST_F(BrokerAdopt, Adopted_IsServedUnderItsOldHandle) {
  const auto link = backend_.Adopt("old", MakeClaim(minutes(8)));
  const auto view = broker_.Get(me_, HandleOf("old"));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->labels, MakeClaim(minutes(8)).labels);
  EXPECT_EQ(view->lease.expire, scheduler_.WallNow() + minutes(8));
  EXPECT_EQ(backend_.remembered(), 0u);  // it holds: nothing to write
  EXPECT_EQ(link->backstop(), scheduler_.Now() + minutes(18));
  EXPECT_EQ(ReasonOf(broker_.Get(other_, HandleOf("old")).status()), Reason::kSandboxNotFound);
  RecordingObserver observer;
  Start(HandleOf("old"), &observer);
  EXPECT_EQ(link->streams().size(), 1u);
}

TEST_F(BrokerAdopt, AdoptedAfterItsLease_GetsOneTtlThatIsWrittenWithItsMark) {
  const auto link = backend_.Adopt("old", MakeClaim(-minutes(30)));
  // An end that passed in the outage never reaches the agent.
  EXPECT_EQ(link->backstop(), kNever);
  scheduler_.RunPosted();
  EXPECT_TRUE(backend_.claim("old")->outage_ttl);
  EXPECT_EQ(backend_.claim("old")->until, scheduler_.WallNow() + minutes(9));
  EXPECT_EQ(link->backstop(), scheduler_.Now() + minutes(19));
  scheduler_.Advance(minutes(10));
  EXPECT_EQ(ReasonOf(broker_.Get(me_, HandleOf("old")).status()), Reason::kLeaseExpired);
}

TEST_F(BrokerAdopt, RealActivityAfterAnOutage_ClearsTheMark) {
  backend_.Adopt("old", MakeClaim(-minutes(30)));
  scheduler_.RunPosted();
  EXPECT_TRUE(Get(broker_.Renew(me_, {HandleOf("old")}))[0].status.ok());
  EXPECT_FALSE(backend_.claim("old")->outage_ttl);
  EXPECT_EQ(backend_.claim("old")->until, scheduler_.WallNow() + minutes(12));
}

TEST_F(BrokerAdopt, AdoptedBeyondItsLifetime_IsTakenBack) {
  Claim claim = MakeClaim(-minutes(30));
  claim.lease.max_lifetime = minutes(40);
  backend_.Adopt("old", claim);
  scheduler_.Advance(seconds(1));
  EXPECT_EQ(backend_.live(), 0u);
  EXPECT_EQ(ReasonOf(broker_.Get(me_, HandleOf("old")).status()), Reason::kLeaseExpired);
}

// T107: a dead creator's placeholder blocks nobody, and what it had claimed is used.
TEST_F(BrokerAdopt, T107_PendingReceiptOfTheDead_TakesOverTheSandboxItHadClaimed) {
  AcquireSpec spec = WithId("r1");
  spec.env.push_back({"A", "b"});
  const std::string key = LeavePending(spec);
  const auto link = backend_.Adopt("old", MakeClaim(minutes(8), key));
  const auto acquired = Acquire(spec);
  ASSERT_TRUE(acquired.ok()) << acquired.status();
  EXPECT_EQ(acquired->sandbox.incarnation, "boot-old");
  EXPECT_EQ(acquired->source, broker::Source::kAdopted);
  EXPECT_EQ(backend_.acquired(), 0u);
  EXPECT_EQ(link->bound_env().size(), 1u);
  EXPECT_NE(backend_.claim("old")->token, "token of the dead");
  EXPECT_EQ(receipts_.all()[key].state, Receipt::State::kBound);
  EXPECT_EQ(Acquire(spec)->source, broker::Source::kRepeated);
}

TEST_F(BrokerAdopt, T107_PendingReceiptOfTheDeadWithoutASandbox_GetsOne) {
  LeavePending(WithId("r1"));
  EXPECT_EQ(Acquire(WithId("r1"))->source, broker::Source::kWarm);
  EXPECT_EQ(backend_.acquired(), 1u);
}

TEST_F(BrokerAdopt, TakenOverByAnotherTry_IsNotTakenBackByTheFirst) {
  AcquireSpec spec = WithId("r1");
  spec.env.push_back({"A", "b"});
  backend_.on_link = [](FakeAgentLink& link) { link.hold_binds = true; };
  const auto first = Begin(broker_.Acquire(me_, spec, CancelToken()));
  // It hangs beyond its deadline: another try takes its receipt and its sandbox.
  scheduler_.Advance(minutes(5));
  const auto second = Begin(broker_.Acquire(me_, spec, CancelToken()));
  backend_.only_link()->AnswerBinds(absl::OkStatus());
  scheduler_.RunPosted();
  ASSERT_TRUE(first->has_value() && second->has_value());
  ASSERT_TRUE((*second)->ok()) << (*second)->status();
  EXPECT_EQ(backend_.acquired(), 1u);
  EXPECT_EQ(backend_.live(), 1u);
  if ((*first)->ok()) {
    EXPECT_EQ((**first)->sandbox.handle, (**second)->sandbox.handle);
  }
}

TEST_F(BrokerAdopt, Sweep_EndsReceiptsOfTheGoneAndRemovesThemLater) {
  const std::string kept = AcquireHandle(WithId("kept"));
  const std::string gone = AcquireHandle(WithId("gone"));
  ASSERT_TRUE(Get(broker_.Release(me_, gone)).ok());
  broker_.StartSweeping();
  scheduler_.RunPosted();
  EXPECT_EQ(receipts_.all()[broker::ReceiptKey(me_, "gone")].state, Receipt::State::kEnded);
  EXPECT_EQ(ReasonOf(Acquire(WithId("gone")).status()), Reason::kSandboxGone);
  for (int i = 0; i < 23; ++i) {
    scheduler_.Advance(hours(1));
    Get(broker_.Renew(me_, {kept}));
  }
  EXPECT_EQ(receipts_.all().size(), 2u);
  scheduler_.Advance(hours(1) + seconds(1));
  EXPECT_EQ(receipts_.all().count(broker::ReceiptKey(me_, "gone")), 0u);
  broker_.Drain();
}

TEST_F(BrokerAdopt, ReleaseMatching_RunsSideBySideWithinABound) {
  AcquireSpec ci;
  ci.labels["app"] = "ci";
  for (int i = 0; i < 20; ++i) AcquireHandle(ci);
  backend_.hold_releases = true;
  const LabelSelector selector = *LabelSelector::Parse("app=ci", "label_selector");
  const auto releases = Begin(broker_.ReleaseMatching(me_, selector, std::nullopt, false));
  EXPECT_EQ(backend_.releasing(), 16u);
  backend_.FinishReleases();
  scheduler_.RunPosted();
  ASSERT_TRUE(releases->has_value());
  EXPECT_EQ((**releases)->size(), 20u);
  EXPECT_EQ(backend_.live(), 0u);
}

TEST_F(BrokerAdopt, LetGo_LeavesSandboxesAloneAndForgetsThem) {
  AcquireHandle();
  broker_.Drain();
  broker_.LetGo();
  scheduler_.Advance(hours(1));
  EXPECT_EQ(backend_.live(), 1u);
  EXPECT_EQ(scheduler_.pending_timers(), 0u);
}

}  // namespace
}  // namespace sandbroker::testing

// Acquiring on Kubernetes when nothing goes wrong, and who waits for what.
#include <algorithm>

#include "lib/backend/kubernetes/times.h"
#include "tests/component/kube_backend_fixture.h"

namespace sandbroker::testing {
namespace {

using broker::Fallback;
using broker::Source;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KubeAcquire : public KubeBackendFixture {};

TEST_F(KubeAcquire, Warm_TakesOnePostOneLeaseWriteAndNoRead) {
  Start();
  const std::string uid = Bound();
  EXPECT_FALSE(uid.empty());
  EXPECT_THAT(cluster_.log(), ElementsAre("create sandboxclaims", "patch sandboxclaims"));
  EXPECT_EQ(cluster_.Reads(), 0u);
  EXPECT_THAT(dialer_.dialed(), ElementsAre("10.0.0.1"));
  EXPECT_EQ(dialer_.probes(), 1u);
}

TEST_F(KubeAcquire, Warm_SaysWhatItIs) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  Run();
  const auto acquired = BeginAcquire(Spec());
  const std::string claim = OnlyClaim();
  EXPECT_EQ(TextAt(cluster_.Claim(claim), "spec.warmPoolRef.name"), "python");
  EXPECT_FALSE(acquired->has_value());
  scheduler_.Advance(milliseconds(28));
  cluster_.GiveMember(claim, "warm-1");
  Run();
  ASSERT_TRUE(acquired->has_value() && (*acquired)->ok());
  const broker::Binding& binding = ***acquired;
  EXPECT_EQ(binding.uid, cluster_.UidOf(kubernetes::Claims(), claim));
  EXPECT_EQ(binding.name, claim);
  EXPECT_EQ(binding.source, Source::kWarm);
  EXPECT_EQ(binding.started, milliseconds(28));
  EXPECT_EQ(binding.link->info().boot_id, "boot-10.0.0.1");
}

// The sandbox that our claim owns counts before the claim says anything.
TEST_F(KubeAcquire, ClaimsOwnEvents_AreNotWaitedFor) {
  Start();
  cluster_.HoldEvents("sandboxclaims");
  EXPECT_FALSE(AcquireWarm().empty());
}

// 12 of 50 on the real thing.
TEST_F(KubeAcquire, EventsOvertakeThePostsAnswer) {
  Start();
  cluster_.Script({.verb = "create", .what = What::kHoldAnswer});
  EXPECT_FALSE(AcquireWarm().empty());
  cluster_.Release();
  Run();
  EXPECT_EQ(cluster_.Claims().size(), 1u);
}

TEST_F(KubeAcquire, Cold_WaitsForItsPod) {
  Start();
  const auto acquired = BeginAcquire(Spec(Fallback::kColdOk));
  const std::string claim = OnlyClaim();
  cluster_.ClaimSays(claim, false, "SandboxNotReady");
  Run();
  EXPECT_FALSE(acquired->has_value());
  cluster_.MakeCold(claim, "10.0.0.7");
  Run();
  ASSERT_TRUE(acquired->has_value() && (*acquired)->ok()) << (*acquired)->status();
  EXPECT_EQ((**acquired)->source, Source::kCold);
  EXPECT_THAT(dialer_.dialed(), ElementsAre("10.0.0.7"));
}

// Trap 10: up to 2 s without a status.
TEST_F(KubeAcquire, NoStatusForTwoSeconds_IsNoError) {
  Start();
  const auto acquired = BeginAcquire(Spec());
  scheduler_.Advance(seconds(2));
  EXPECT_FALSE(acquired->has_value());
  cluster_.MakeCold(OnlyClaim(), "10.0.0.7");
  Run();
  EXPECT_TRUE(acquired->has_value() && (*acquired)->ok());
}

TEST_F(KubeAcquire, AdoptionConflict_IsWaitedThrough) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  const auto acquired = BeginAcquire(Spec());
  const std::string claim = OnlyClaim();
  cluster_.ClaimSays(claim, false, "AdoptionConflict");
  Run();
  EXPECT_FALSE(acquired->has_value());
  cluster_.GiveMember(claim, "warm-1");
  Run();
  EXPECT_TRUE(acquired->has_value() && (*acquired)->ok());
}

// T75 and the like: unknown pools are the caller's mistake.
TEST_F(KubeAcquire, UnknownPool_IsNotFound) {
  Start();
  broker::AcquireSpec spec = Spec();
  spec.pool = "nope";
  const Acquired acquired = Get(backend_->Acquire(spec, CancelToken()));
  EXPECT_EQ(ReasonOf(acquired.status()), Reason::kPoolNotFound);
  EXPECT_TRUE(cluster_.log().empty());
}

TEST_F(KubeAcquire, WarmOnly_OnADryPoolIsRefusedWithoutAWrite) {
  Start();
  const Acquired acquired = Get(backend_->Acquire(Spec(Fallback::kWarmOnly), CancelToken()));
  EXPECT_EQ(ReasonOf(acquired.status()), Reason::kPoolExhausted);
  EXPECT_TRUE(cluster_.log().empty());
}

// A member that three claims are still to take is not three members.
TEST_F(KubeAcquire, WarmOnly_CountsMembersThatOthersAreAboutToTake) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  Run();
  const auto first = BeginAcquire(Spec(Fallback::kWarmOnly));
  const Acquired second = Get(backend_->Acquire(Spec(Fallback::kWarmOnly), CancelToken()));
  EXPECT_EQ(ReasonOf(second.status()), Reason::kPoolExhausted);
  cluster_.GiveMember(OnlyClaim(), "warm-1");
  Run();
  EXPECT_TRUE(first->has_value() && (*first)->ok());
}

TEST_F(KubeAcquire, Wait_OnADryPoolPostsNothingUntilAMemberIsReady) {
  Start();
  const auto acquired = BeginAcquire(Spec(Fallback::kWait));
  scheduler_.Advance(seconds(5));
  EXPECT_TRUE(cluster_.Claims().empty());
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  Run();
  cluster_.GiveMember(OnlyClaim(), "warm-1");
  Run();
  ASSERT_TRUE(acquired->has_value() && (*acquired)->ok());
  EXPECT_EQ((**acquired)->queued, seconds(5));
}

TEST_F(KubeAcquire, Wait_IsFirstComeFirstServed) {
  Start();
  const auto first = BeginAcquire(Spec(Fallback::kWait));
  const auto second = BeginAcquire(Spec(Fallback::kWait));
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  Run();
  cluster_.GiveMember(OnlyClaim(), "warm-1");
  Run();
  EXPECT_TRUE(first->has_value());
  EXPECT_FALSE(second->has_value());
}

TEST_F(KubeAcquire, Wait_IsBounded) {
  Start();
  const auto acquired = BeginAcquire(Spec(Fallback::kWait));
  scheduler_.Advance(seconds(30));
  ASSERT_TRUE(acquired->has_value());
  EXPECT_EQ(ReasonOf((*acquired)->status()), Reason::kPoolExhausted);
  EXPECT_TRUE(cluster_.log().empty());
}

TEST_F(KubeAcquire, Wait_CancelledInTheQueue_WritesNothing) {
  Start();
  const auto acquired = BeginAcquire(Spec(Fallback::kWait));
  cancel_.Cancel();
  Run();
  ASSERT_TRUE(acquired->has_value());
  EXPECT_EQ(ReasonOf((*acquired)->status()), Reason::kCancelled);
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  Run();
  EXPECT_TRUE(cluster_.log().empty());
}

// 300 callers on a pool of 50: no more claims than demand.
TEST_F(KubeAcquire, Wait_ManyCallers_ClaimNoMoreThanThereIs) {
  Start();
  for (int i = 0; i < 50; ++i) {
    cluster_.AddMember("python", StrCat("warm-", i), StrCat("10.0.1.", i));
  }
  Run();
  std::vector<std::shared_ptr<std::optional<Acquired>>> all;
  all.reserve(300);
  for (int i = 0; i < 300; ++i) {
    all.push_back(Begin(backend_->Acquire(Spec(Fallback::kWait), CancelToken())));
  }
  EXPECT_EQ(cluster_.Claims().size(), 50u);
  int member = 0;
  for (const std::string& claim : cluster_.Claims()) {
    cluster_.GiveMember(claim, StrCat("warm-", member++));
  }
  Run();
  EXPECT_EQ(cluster_.Claims().size(), 50u);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto& one) { return one->has_value(); }),
            50);
}

TEST_F(KubeAcquire, Limit_HoldsColdStartsBackToo) {
  limit_ = 1;
  Start();
  const std::string uid = Bound();
  const auto second = BeginAcquire(Spec(Fallback::kColdOk));
  EXPECT_EQ(cluster_.Claims().size(), 1u);
  EXPECT_TRUE(Get(backend_->Release(uid)).ok());
  Run();
  EXPECT_EQ(cluster_.Claims().size(), 1u);
  cluster_.MakeCold(OnlyClaim(), "10.0.0.7");
  Run();
  EXPECT_TRUE(second->has_value() && (*second)->ok());
}

// Pools of no members are the idiom for cold starts.
TEST_F(KubeAcquire, Wait_OnAPoolThatKeepsNone_StartsOneAtATime) {
  cluster_.store().Update(kubernetes::WarmPools(), FakeCluster::kSpace, "python",
                          [](json::object& pool) { SetAt(pool, "spec.replicas", 0); });
  Start();
  const auto first = BeginAcquire(Spec(Fallback::kWait));
  const auto second = BeginAcquire(Spec(Fallback::kWait));
  cluster_.MakeCold(OnlyClaim(), "10.0.0.7");
  Run();
  EXPECT_TRUE(first->has_value() && (*first)->ok());
  EXPECT_EQ(cluster_.Claims().size(), 2u);
}

TEST_F(KubeAcquire, Capacity_ComesFromTheInformers) {
  Start();
  Bound();
  cluster_.AddMember("python", "warm-2", "10.0.0.2");
  cluster_.AddMember("python", "warm-3", "10.0.0.3");
  cluster_.ChangeSandbox("warm-3", [](json::object& sandbox) { SetReady(&sandbox, false, "x"); });
  Run();
  cluster_.ClearLog();
  const auto capacity = backend_->Capacity();
  ASSERT_EQ(capacity.size(), 1u);
  EXPECT_EQ(capacity[0].pool, "default");
  EXPECT_EQ(capacity[0].wanted, 2u);
  EXPECT_EQ(capacity[0].ready, 1u);
  EXPECT_EQ(capacity[0].pending, 1u);
  EXPECT_EQ(capacity[0].claimed, 1u);
  EXPECT_EQ(capacity[0].last_error, "");
  backend_->pods().OnStale("the API server is silent");
  EXPECT_THAT(backend_->Capacity()[0].last_error, HasSubstr("the API server is silent"));
  EXPECT_TRUE(cluster_.log().empty());
}

TEST_F(KubeAcquire, Drain_EndsWhoWaits) {
  Start();
  const auto acquired = BeginAcquire(Spec(Fallback::kWait));
  backend_->Drain();
  Run();
  ASSERT_TRUE(acquired->has_value());
  EXPECT_EQ(ReasonOf((*acquired)->status()), Reason::kServerDraining);
  EXPECT_EQ(ReasonOf(Get(backend_->Acquire(Spec(), CancelToken())).status()),
            Reason::kServerDraining);
}

// The claim carries what another broker needs from its first moment.
TEST_F(KubeAcquire, Claim_NamesItsReceiptAndHolderInThePost) {
  Start();
  broker::AcquireSpec spec = Spec();
  spec.claimant.receipt = std::string(64, 'a');
  spec.claimant.token = "0123";
  BeginAcquire(spec);
  const json::object claim = cluster_.Claim(OnlyClaim());
  const json::object& labels = claim.at("metadata").at("labels").as_object();
  EXPECT_EQ(labels.at("sandbroker.dev/receipt"), json::string(std::string(63, 'a')));
  EXPECT_EQ(labels.at("sandbroker.dev/holder"), "0123");
  EXPECT_EQ(claim.at("metadata").at("annotations").at("sandbroker.dev/lease-until"), "");
}

TEST_F(KubeAcquire, FirstBackstop_LiesTwoMinutesBeyondTheCallersBound) {
  Start();
  BeginAcquire(Spec());
  EXPECT_EQ(TextAt(cluster_.Claim(OnlyClaim()), "spec.lifecycle.shutdownTime"),
            kubernetes::FormatSeconds(scheduler_.WallNow() + seconds(150)));
}

}  // namespace
}  // namespace sandbroker::testing

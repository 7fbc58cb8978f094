// What becomes of a sandbox on Kubernetes after it was handed out: its links, its incarnations, its
// release, and other brokers that find it.
#include "tests/component/kube_backend_fixture.h"

namespace sandbroker::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KubeLife : public KubeBackendFixture {
 protected:
  // Everything about the sandbox says that it is as ready as before.
  std::string Start1() {
    Start();
    const std::string uid = Bound();
    claim_ = OnlyClaim();
    observer_.said.clear();
    return uid;
  }
  void ReplacePod(const std::string& ip) {
    cluster_.RemovePod("warm-1");
    cluster_.AddPod("warm-1", ip);
    cluster_.ChangeSandbox("warm-1", [&](json::object& one) {
      one["status"].as_object()["podIPs"] = json::array{ip};
    });
    Run();
  }
  std::string claim_;
};

TEST_F(KubeLife, PodKilled_EndsWhatRanAndTheNextIncarnationIsTakenIn) {
  const std::string uid = Start1();
  ReplacePod("10.0.0.9");
  EXPECT_THAT(observer_.said,
              ElementsAre(StrCat("gone ", uid, " pod deleted"), StrCat("adopted ", uid)));
  EXPECT_EQ(observer_.adopted.back().link->info().boot_id, "boot-10.0.0.9");
  EXPECT_EQ(dialer_.probes(), 2u) << "once per incarnation";
}

// T98 and the like: a memory limit, told by the pod alone.
TEST_F(KubeLife, OutOfMemory_IsTheCause) {
  const std::string uid = Start1();
  cluster_.ChangePod("warm-1", [](json::object& pod) {
    pod["status"].as_object()["phase"] = "Failed";
    AgentStatus(&pod)["state"] = Ended("OOMKilled", 137);
  });
  Run();
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("gone ", uid, " out of memory")));
}

TEST_F(KubeLife, Evicted_IsTheCause) {
  const std::string uid = Start1();
  cluster_.ChangePod("warm-1", [](json::object& pod) {
    pod["status"].as_object()["phase"] = "Failed";
    pod["status"].as_object()["reason"] = "Evicted";
    pod["status"].as_object()["message"] = "The node was low on resource: memory.";
  });
  Run();
  EXPECT_THAT(observer_.said, ElementsAre(HasSubstr("evicted: The node was low")));
}

TEST_F(KubeLife, ContainerRestarted_IsAnotherIncarnation) {
  const std::string uid = Start1();
  cluster_.ChangePod("warm-1", [](json::object& pod) {
    AgentStatus(&pod)["restartCount"] = 1;
    AgentStatus(&pod)["lastState"] = Ended("Error", 7);
  });
  dialer_.boot_ids["10.0.0.1"] = "second";
  Run();
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("gone ", uid, " restarted: exit code 7"),
                                          StrCat("adopted ", uid)));
}

// Trap 7.
TEST_F(KubeLife, ReadyFlap_DisturbsNobody) {
  Start1();
  cluster_.ChangeSandbox("warm-1",
                         [](json::object& one) { SetReady(&one, false, "DependenciesNotReady"); });
  cluster_.ClaimSays(claim_, false, "DependenciesNotReady");
  Run();
  EXPECT_THAT(observer_.said, IsEmpty());
  EXPECT_TRUE(dialer_.link("10.0.0.1")->open());
}

// Finished comes and goes with every pod: with this one nothing has happened.
TEST_F(KubeLife, PodBeingDeleted_ServesUntilItIsGone) {
  const std::string uid = Start1();
  cluster_.ChangePod("warm-1", [](json::object& pod) { SetDeleting(&pod); });
  Run();
  EXPECT_THAT(observer_.said, IsEmpty());
  cluster_.RemovePod("warm-1");
  Run();
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("gone ", uid, " pod deleted")));
}

TEST_F(KubeLife, ReboundToAnotherSandbox_IsAnotherIncarnation) {
  const std::string uid = Start1();
  cluster_.AddMember("python", "warm-2", "10.0.0.2");
  cluster_.RemoveSandbox("warm-1");
  cluster_.RemovePod("warm-1");
  cluster_.GiveMember(claim_, "warm-2");
  Run();
  EXPECT_THAT(observer_.said,
              ElementsAre(StrCat("gone ", uid, " replaced"), StrCat("adopted ", uid)));
  EXPECT_EQ(observer_.adopted.back().link->info().boot_id, "boot-10.0.0.2");
}

TEST_F(KubeLife, ClaimDeletedFromOutside_IsGone) {
  const std::string uid = Start1();
  cluster_.RemoveClaim(claim_);
  Run();
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("gone ", uid, " deleted")));
  EXPECT_FALSE(dialer_.link("10.0.0.1")->open());
}

// Chapter 10: the same name made again at once is another claim.
TEST_F(KubeLife, ClaimDeletedAndItsNameMadeAgain_IsGone) {
  const std::string uid = Start1();
  json::object again = cluster_.Claim(claim_);
  cluster_.HoldEvents("sandboxclaims");
  cluster_.RemoveClaim(claim_);
  cluster_.store().Create(kubernetes::Claims(), FakeCluster::kSpace, again);
  cluster_.Deliver("sandboxclaims");
  Run();
  EXPECT_EQ(observer_.said.front(), StrCat("gone ", uid, " deleted"));
}

// The claim keeps the dead sandbox's name and address for good.
TEST_F(KubeLife, SandboxGoneAndPoolMissing_IsGone) {
  const std::string uid = Start1();
  cluster_.RemoveSandbox("warm-1");
  cluster_.RemovePod("warm-1");
  cluster_.ClaimSays(claim_, false, "WarmPoolNotFound", "SandboxWarmPool \"python\" not found");
  Run();
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("gone ", uid, " pod deleted")));
}

TEST_F(KubeLife, IncarnationOverBeforeAnybodyWasTold_ItsClaimIsDeleted) {
  Start();
  AcquireWarm();
  cluster_.RemovePod("warm-1");
  Run();
  EXPECT_THAT(cluster_.Claims(), IsEmpty());
}

TEST_F(KubeLife, LinkLost_IsDialledAgainWithTheSameIncarnation) {
  const std::string uid = Start1();
  dialer_.Lose("10.0.0.1");
  Run();
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("lost ", uid), StrCat("restored ", uid)));
  EXPECT_EQ(dialer_.probes(), 1u);
}

TEST_F(KubeLife, LinkLostAndRefused_ReadsThePodOnceAndTriesOn) {
  const std::string uid = Start1();
  cluster_.ClearLog();
  dialer_.refused["10.0.0.1"] = MakeError(Reason::kAgentUnreachable, "refused");
  dialer_.Lose("10.0.0.1");
  scheduler_.Advance(seconds(5));
  EXPECT_EQ(cluster_.Count("get pods"), 1u);
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("lost ", uid)));
  dialer_.refused.clear();
  scheduler_.Advance(seconds(2));
  EXPECT_THAT(observer_.said, Contains(StrCat("restored ", uid)));
}

// The informer is behind: the read tells.
TEST_F(KubeLife, LinkLostAndPodGone_IsToldByTheRead) {
  const std::string uid = Start1();
  cluster_.HoldEvents("pods");
  dialer_.refused["10.0.0.1"] = MakeError(Reason::kAgentUnreachable, "refused");
  cluster_.RemovePod("warm-1");
  dialer_.Lose("10.0.0.1");
  Run();
  EXPECT_THAT(observer_.said,
              ElementsAre(StrCat("lost ", uid), StrCat("gone ", uid, " pod deleted")));
}

// Trap 5: who answers at the old address is somebody else.
TEST_F(KubeLife, LinkLostAndAnotherAnswers_IsNotTaken) {
  const std::string uid = Start1();
  dialer_.boot_ids["10.0.0.1"] = "somebody else";
  dialer_.Lose("10.0.0.1");
  scheduler_.Advance(minutes(1));
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("lost ", uid)));
}

TEST_F(KubeLife, LinkLostForLong_IsTriedSlowlyAndNeverCalledGone) {
  const std::string uid = Start1();
  dialer_.refused["10.0.0.1"] = MakeError(Reason::kAgentUnreachable, "refused");
  dialer_.Lose("10.0.0.1");
  scheduler_.Advance(minutes(1));
  const size_t after_a_minute = dialer_.dialed().size();
  scheduler_.Advance(minutes(5));
  EXPECT_LE(dialer_.dialed().size() - after_a_minute, 31u);
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("lost ", uid)));
}

TEST_F(KubeLife, Release_DeletesTheVeryClaim) {
  const std::string uid = Start1();
  cluster_.ClearLog();
  EXPECT_TRUE(Get(backend_->Release(uid)).ok());
  EXPECT_THAT(cluster_.Claims(), IsEmpty());
  EXPECT_THAT(cluster_.log(), ElementsAre("delete sandboxclaims"));
  EXPECT_FALSE(dialer_.link("10.0.0.1")->open());
  // Its deletion is no news.
  EXPECT_THAT(observer_.said, IsEmpty());
  EXPECT_TRUE(Get(backend_->Release(uid)).ok());
}

TEST_F(KubeLife, ReleaseOfOneThatIsGone_IsFine) {
  const std::string uid = Start1();
  cluster_.HoldEvents("sandboxclaims");
  cluster_.RemoveClaim(claim_);
  EXPECT_TRUE(Get(backend_->Release(uid)).ok());
}

// DELETED and the same name made again: somebody else's claim is not touched.
TEST_F(KubeLife, Release_LeavesANewOwnerOfTheNameAlone) {
  const std::string uid = Start1();
  json::object again = cluster_.Claim(claim_);
  cluster_.HoldEvents("sandboxclaims");
  cluster_.RemoveClaim(claim_);
  cluster_.store().Create(kubernetes::Claims(), FakeCluster::kSpace, again);
  EXPECT_TRUE(Get(backend_->Release(uid)).ok());
  EXPECT_EQ(cluster_.Claims().size(), 1u);
}

TEST_F(KubeLife, ReleaseWithUnknownOutcome_IsAskedAgainUntilItIsKnown) {
  const std::string uid = Start1();
  cluster_.Script({.verb = "delete", .what = What::kLostAfter});
  const auto released = Begin(backend_->Release(uid));
  scheduler_.Advance(seconds(1));
  ASSERT_TRUE(released->has_value());
  EXPECT_TRUE((*released)->ok());
}

TEST_F(KubeLife, ReleaseThatIsRefused_LeavesItServed) {
  const std::string uid = Start1();
  cluster_.Script({.verb = "delete", .status = 403, .reason = "Forbidden"});
  const absl::Status status = Get(backend_->Release(uid));
  EXPECT_EQ(ReasonOf(status), Reason::kBrokerForbidden);
  EXPECT_EQ(DetailOf(status).metadata.at("verb"), "delete");
  dialer_.Lose("10.0.0.1");
  Run();
  EXPECT_THAT(observer_.said, Contains(StrCat("restored ", uid)));
  EXPECT_TRUE(Get(backend_->Release(uid)).ok());
}

TEST_F(KubeLife, EarlierBrokersSandbox_IsAdoptedAtStart) {
  const std::string uid = Start1();
  const broker::Claim kept = Promise();
  Restart();
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("adopted ", uid)));
  const broker::Adopted& adopted = observer_.adopted.back();
  EXPECT_EQ(adopted.pool, "default");
  EXPECT_EQ(adopted.name, claim_);
  EXPECT_EQ(adopted.claim.tenant, "tenant");
  EXPECT_EQ(adopted.claim.until, kept.until);
  EXPECT_TRUE(Get(backend_->Release(uid)).ok());
}

TEST_F(KubeLife, ClaimThatNobodyWasToldOf_IsNotAdopted) {
  Start();
  AcquireWarm();
  Restart();
  EXPECT_THAT(observer_.said, IsEmpty());
}

TEST_F(KubeLife, ClaimThatCanNotBeRead_IsLeftAlone) {
  Start1();
  cluster_.ChangeClaim(claim_, [](json::object& claim) {
    claim["metadata"].at("annotations").as_object()["sandbroker.dev/claim"] = "{";
  });
  Run();
  Restart();
  EXPECT_THAT(observer_.said, IsEmpty());
  scheduler_.Advance(minutes(5));
  EXPECT_EQ(cluster_.Claims().size(), 1u);
}

TEST_F(KubeLife, PrivilegedSandboxOfAnEarlierBroker_IsNotAdopted) {
  Start1();
  dialer_.status_file = "CapEff:\t1\n";
  Restart();
  scheduler_.Advance(minutes(1));
  EXPECT_THAT(observer_.said, IsEmpty());
}

// Start ends although an agent does not answer; it is adopted when it does.
TEST_F(KubeLife, EarlierBrokersSandboxThatIsNotReady_IsAdoptedWhenItIs) {
  const std::string uid = Start1();
  dialer_.refused["10.0.0.1"] = MakeError(Reason::kAgentUnreachable, "refused");
  Restart();
  scheduler_.Advance(seconds(20));
  EXPECT_THAT(observer_.said, IsEmpty());
  dialer_.refused.clear();
  scheduler_.Advance(seconds(20));
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("adopted ", uid)));
}

TEST_F(KubeLife, Seek_FindsWhatTheInformerHasNotToldYet) {
  const std::string uid = Start1();
  backend_->LetGo();
  cluster_.Unwatch();
  Run();
  old_.push_back(std::move(backend_));
  observer_.said.clear();
  json::object claim = cluster_.Claim(claim_);
  const auto hide = [&](json::object& one) {
    one["metadata"].at("annotations").as_object()["sandbroker.dev/lease-until"] = "";
  };
  cluster_.ChangeClaim(claim_, hide);
  Start();
  cluster_.HoldEvents("sandboxclaims");
  cluster_.ChangeClaim(claim_, [&](json::object& one) { one["metadata"] = claim["metadata"]; });
  EXPECT_THAT(observer_.said, IsEmpty());
  EXPECT_TRUE(Get(backend_->Seek(claim_, uid)).ok());
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("adopted ", uid)));
}

TEST_F(KubeLife, Seek_OfOneThatIsGone_SaysSo) {
  Start();
  EXPECT_TRUE(Get(backend_->Seek("sb-none", "uid")).ok());
  EXPECT_THAT(observer_.said, IsEmpty());
  cluster_.Script({.verb = "get", .what = What::kNotSent});
  EXPECT_EQ(ReasonOf(Get(backend_->Seek("sb-none", "uid"))), Reason::kApiUnreachable);
}

// A broker died between its POST and its lease write: whoever takes its receipt over finds it.
TEST_F(KubeLife, SeekReceipt_FindsAClaimThatWasNeverLeased) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  Run();
  broker::AcquireSpec spec = Spec();
  spec.claimant.receipt = std::string(64, 'e');
  spec.claimant.token = "first";
  const auto acquired = BeginAcquire(spec);
  cluster_.GiveMember(OnlyClaim(), "warm-1");
  Run();
  ASSERT_TRUE(acquired->has_value() && (*acquired)->ok());
  const std::string uid = (**acquired)->uid;
  Restart();
  EXPECT_TRUE(Get(backend_->SeekReceipt(std::string(64, 'f'))).ok());
  EXPECT_THAT(observer_.said, IsEmpty());
  EXPECT_TRUE(Get(backend_->SeekReceipt(std::string(64, 'e'))).ok());
  ASSERT_THAT(observer_.said, ElementsAre(StrCat("adopted ", uid)));
  EXPECT_EQ(observer_.adopted.back().claim.token, "first");
  // And puts its own token on it.
  broker::Claim ours = observer_.adopted.back().claim;
  ours.token = "second";
  EXPECT_TRUE(Remember(uid, ours).ok());
  EXPECT_EQ(cluster_.Claim(OnlyClaim()).at("metadata").at("labels").at("sandbroker.dev/holder"),
            "second");
}

TEST_F(KubeLife, LetGo_LeavesClaimsAsTheyAre) {
  Start1();
  cluster_.ClearLog();
  backend_->LetGo();
  scheduler_.Advance(minutes(1));
  EXPECT_EQ(cluster_.Claims().size(), 1u);
  EXPECT_THAT(cluster_.log(), IsEmpty());
}

}  // namespace
}  // namespace sandbroker::testing

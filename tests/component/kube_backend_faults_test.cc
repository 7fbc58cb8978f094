// Acquiring on Kubernetes when something goes wrong: at the API server, at the controller, at the
// agent, or because the caller leaves. What is left behind is deleted; nothing is made twice.
#include "tests/component/kube_backend_fixture.h"

namespace sandbroker::testing {
namespace {

using broker::Fallback;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KubeFaults : public KubeBackendFixture {
 protected:
  // The acquire has failed with this reason, and its claim goes.
  absl::Status ExpectFailed(const std::shared_ptr<std::optional<Acquired>>& acquired,
                            Reason reason) {
    EXPECT_TRUE(acquired->has_value()) << "still waiting";
    if (!acquired->has_value()) return absl::OkStatus();
    const absl::Status status = (*acquired)->status();
    EXPECT_EQ(ReasonOf(status), reason) << status;
    Run();
    EXPECT_TRUE(cluster_.Claims().empty());
    return status;
  }
};

// The same name again, 409, and the holder says that it is ours.
TEST_F(KubeFaults, PostAcceptedAndItsAnswerLost_IsMetByTheSameName) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  cluster_.HoldEvents("sandboxclaims");
  Run();
  cluster_.Script({.verb = "create", .what = What::kLostAfter});
  const auto acquired = BeginAcquire(Spec());
  const std::string claim = OnlyClaim();
  cluster_.GiveMember(claim, "warm-1");
  scheduler_.Advance(seconds(1));
  ASSERT_TRUE(acquired->has_value() && (*acquired)->ok()) << (*acquired)->status();
  EXPECT_EQ(cluster_.Claims().size(), 1u);
  EXPECT_THAT(cluster_.log(),
              ElementsAre("create sandboxclaims", "create sandboxclaims", "get sandboxclaims"));
}

// Its event says so without a read.
TEST_F(KubeFaults, PostAcceptedAndItsAnswerLost_IsMetByItsEvent) {
  Start();
  cluster_.Script({.verb = "create", .what = What::kLostAfter});
  EXPECT_FALSE(AcquireWarm().empty());
  EXPECT_EQ(cluster_.Reads(), 0u);
}

TEST_F(KubeFaults, PostLostWithoutEffect_IsSentAgain) {
  Start();
  cluster_.Script({.verb = "create", .what = What::kLost});
  const auto acquired = BeginAcquire(Spec());
  scheduler_.Advance(seconds(1));
  cluster_.MakeCold(OnlyClaim(), "10.0.0.7");
  Run();
  EXPECT_TRUE(acquired->has_value() && (*acquired)->ok());
  EXPECT_EQ(cluster_.Count("create sandboxclaims"), 2u);
}

TEST_F(KubeFaults, NameTakenBySomebodyElse_IsNotTakenForOurs) {
  Start();
  cluster_.HoldEvents("sandboxclaims");
  cluster_.Script({.verb = "create", .what = What::kLostAfter});
  const auto acquired = BeginAcquire(Spec());
  cluster_.ChangeClaim(OnlyClaim(), [](json::object& claim) {
    claim["metadata"].at("labels").as_object()["sandbroker.dev/holder"] = "another";
  });
  scheduler_.Advance(seconds(1));
  ASSERT_TRUE(acquired->has_value());
  EXPECT_EQ(ReasonOf((*acquired)->status()), Reason::kClaimRejected);
  scheduler_.Advance(minutes(5));
  EXPECT_EQ(cluster_.Claims().size(), 1u) << "somebody else's claim was deleted";
}

TEST_F(KubeFaults, TooManyRequests_IsWaitedOut) {
  Start();
  cluster_.Script({.verb = "create", .status = 429, .reason = "TooManyRequests"});
  const auto acquired = BeginAcquire(Spec());
  EXPECT_FALSE(acquired->has_value());
  scheduler_.Advance(seconds(1));
  cluster_.MakeCold(OnlyClaim(), "10.0.0.7");
  Run();
  EXPECT_TRUE(acquired->has_value() && (*acquired)->ok());
}

// T104 and the like: the operator's matter, never the caller's PERMISSION_DENIED.
TEST_F(KubeFaults, MissingRight_IsNamed) {
  Start();
  cluster_.Script({.verb = "create", .status = 403, .reason = "Forbidden"});
  const auto acquired = BeginAcquire(Spec());
  const absl::Status status = ExpectFailed(acquired, Reason::kBrokerForbidden);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(status).metadata.at("verb"), "create");
  EXPECT_EQ(DetailOf(status).metadata.at("resource"), "sandboxclaims");
}

TEST_F(KubeFaults, RefusedByTheSchema_IsToldInTheServersWords) {
  Start();
  cluster_.Script({.verb = "create", .status = 422, .reason = "Invalid"});
  const absl::Status status = ExpectFailed(BeginAcquire(Spec()), Reason::kClaimRejected);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("scripted refusal"));
}

TEST_F(KubeFaults, ServerOutOfReach_EndsWithTheCallersBound) {
  Start();
  cluster_.Script({.verb = "create", .what = What::kNotSent, .times = -1});
  const auto acquired = BeginAcquire(Spec());
  scheduler_.Advance(seconds(31));
  EXPECT_FALSE(ExpectFailed(acquired, Reason::kApiUnreachable).ok());
}

TEST_F(KubeFaults, ControllersRefusal_FailsWithinOneEventAndItsClaimGoes) {
  Start();
  const auto acquired = BeginAcquire(Spec());
  cluster_.ClaimSays(OnlyClaim(), false, "InvalidMetadata", "label \"foo\" must have a domain");
  Run();
  const absl::Status status = ExpectFailed(acquired, Reason::kClaimRejected);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("label \"foo\" must have a domain"));
}

// Trap 11: the controller would try for ever.
TEST_F(KubeFaults, WarmPoolNotFoundForEver_IsNamedAtOnce) {
  Start();
  const auto acquired = BeginAcquire(Spec());
  cluster_.ClaimSays(OnlyClaim(), false, "WarmPoolNotFound",
                     "SandboxWarmPool \"python\" not found");
  Run();
  const absl::Status status = ExpectFailed(acquired, Reason::kClaimRejected);
  EXPECT_EQ(DetailOf(status).metadata.at("controller_reason"), "WarmPoolNotFound");
}

TEST_F(KubeFaults, PoolThatTheClusterDoesNotHave_IsNamedWithoutAWrite) {
  cluster_.store().Remove(kubernetes::WarmPools(), FakeCluster::kSpace, "python");
  Start();
  const Acquired acquired = Get(backend_->Acquire(Spec(Fallback::kWait), CancelToken()));
  EXPECT_EQ(ReasonOf(acquired.status()), Reason::kClaimRejected);
  EXPECT_THAT(std::string(MessageOf(acquired.status())), HasSubstr("SandboxWarmPool 'python'"));
  EXPECT_TRUE(cluster_.log().empty());
}

TEST_F(KubeFaults, ImageThatCanNotBeHad_IsDiagnosedBeforeTheClaimGoes) {
  Start();
  const auto acquired = BeginAcquire(Spec());
  const std::string claim = OnlyClaim();
  cluster_.MakeCold(claim, "10.0.0.7");
  cluster_.ChangeSandbox(claim, [](json::object& one) {
    SetReady(&one, false, "DependenciesNotReady", "Pod exists with phase: Pending");
  });
  cluster_.ChangePod(claim, [](json::object& pod) {
    AgentStatus(&pod)["state"] = {
        {"waiting", {{"reason", "ErrImageNeverPull"}, {"message", "image x is not present"}}}};
  });
  Run();
  const absl::Status status = ExpectFailed(acquired, Reason::kImagePull);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("image x is not present"));
}

TEST_F(KubeFaults, NotReadyInTime_HasTheControllersWordsAndItsClaimGoes) {
  Start();
  const auto acquired = BeginAcquire(Spec());
  cluster_.ClaimSays(OnlyClaim(), false, "SomethingNew", "who knows");
  scheduler_.Advance(seconds(30));
  const absl::Status status = ExpectFailed(acquired, Reason::kNotReady);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("SomethingNew: who knows"));
}

TEST_F(KubeFaults, ClaimDeletedMeanwhile_EndsTheAcquire) {
  Start();
  const auto acquired = BeginAcquire(Spec());
  cluster_.RemoveClaim(OnlyClaim());
  Run();
  EXPECT_FALSE(ExpectFailed(acquired, Reason::kNotReady).ok());
}

// AS#1136: the pod of the member that was adopted is dying.
TEST_F(KubeFaults, DyingPod_IsNotDialledAndItsSuccessorIs) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  cluster_.ChangePod("warm-1", [](json::object& pod) { SetDeleting(&pod); });
  Run();
  const auto acquired = BeginAcquire(Spec());
  cluster_.GiveMember(OnlyClaim(), "warm-1");
  Run();
  EXPECT_TRUE(dialer_.dialed().empty());
  cluster_.RemovePod("warm-1");
  cluster_.AddPod("warm-1", "10.0.0.9");
  cluster_.ChangeSandbox("warm-1", [](json::object& one) {
    one["status"].as_object()["podIPs"] = json::array{"10.0.0.9"};
  });
  Run();
  ASSERT_TRUE(acquired->has_value() && (*acquired)->ok());
  EXPECT_THAT(dialer_.dialed(), ElementsAre("10.0.0.9"));
}

// Ready, then the sandbox is deleted and the same claim bound to another member.
TEST_F(KubeFaults, ReboundWhileItWasDialled_TheOtherOneIsServed) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  cluster_.AddMember("python", "warm-2", "10.0.0.2");
  dialer_.hold_dials = true;
  const auto acquired = BeginAcquire(Spec());
  const std::string claim = OnlyClaim();
  cluster_.GiveMember(claim, "warm-1");
  Run();
  EXPECT_THAT(dialer_.dialed(), ElementsAre("10.0.0.1"));
  cluster_.RemoveSandbox("warm-1");
  cluster_.GiveMember(claim, "warm-2");
  Run();
  dialer_.AnswerDials();
  Run();
  ASSERT_TRUE(acquired->has_value() && (*acquired)->ok()) << (*acquired)->status();
  EXPECT_EQ((**acquired)->link->info().boot_id, "boot-10.0.0.2");
}

// Trap 5: what answers there may be somebody else's by now.
TEST_F(KubeFaults, AddressMovedWhileItWasDialled_IsNotServed) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  dialer_.hold_dials = true;
  const auto acquired = BeginAcquire(Spec());
  cluster_.GiveMember(OnlyClaim(), "warm-1");
  Run();
  cluster_.ChangePod("warm-1",
                     [](json::object& pod) { pod["status"].as_object()["podIP"] = "10.0.0.8"; });
  Run();
  dialer_.AnswerDials();
  Run();
  EXPECT_FALSE(acquired->has_value());
  cluster_.ChangeSandbox("warm-1", [](json::object& one) {
    one["status"].as_object()["podIPs"] = json::array{"10.0.0.8"};
  });
  Run();
  ASSERT_TRUE(acquired->has_value() && (*acquired)->ok());
  EXPECT_EQ((**acquired)->link->info().boot_id, "boot-10.0.0.8");
}

// Trap 1 with a NetworkPolicy behind it (#1409): ready, and nobody answers.
TEST_F(KubeFaults, ReadyAndNobodyAnswers_PointsAtTheNetworkPolicy) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  dialer_.hold_dials = true;
  const auto acquired = BeginAcquire(Spec());
  cluster_.GiveMember(OnlyClaim(), "warm-1");
  scheduler_.Advance(seconds(10));
  const absl::Status status = ExpectFailed(acquired, Reason::kAgentUnreachable);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("NetworkPolicy"));
  EXPECT_EQ(DetailOf(status).metadata.at("address"), "10.0.0.1");
}

TEST_F(KubeFaults, CancelledBeforeThePostIsAnswered_ItsLateSuccessIsDeleted) {
  Start();
  cluster_.HoldEvents("sandboxclaims");
  cluster_.Script({.verb = "create", .what = What::kHoldAnswer});
  const auto acquired = BeginAcquire(Spec());
  EXPECT_EQ(cluster_.Claims().size(), 1u);
  cancel_.Cancel();
  Run();
  ASSERT_TRUE(acquired->has_value());
  EXPECT_EQ(ReasonOf((*acquired)->status()), Reason::kCancelled);
  scheduler_.Advance(seconds(1));
  EXPECT_TRUE(cluster_.Claims().empty());
}

// It was written after everybody had given up: found by its name, or by its event.
TEST_F(KubeFaults, CancelledAndThePostLandsLater_ItIsDeletedAllTheSame) {
  Start();
  cluster_.Script({.verb = "create", .what = What::kLost, .times = -1});
  const auto acquired = BeginAcquire(Spec());
  cancel_.Cancel();
  scheduler_.Advance(seconds(1));
  ASSERT_TRUE(acquired->has_value());
  EXPECT_GE(cluster_.Count("get sandboxclaims"), 1u);
}

TEST_F(KubeFaults, CancelledWhileItWaitsForTheController_ItsClaimGoes) {
  Start();
  const auto acquired = BeginAcquire(Spec());
  Run();
  cancel_.Cancel();
  Run();
  EXPECT_FALSE(ExpectFailed(acquired, Reason::kCancelled).ok());
}

TEST_F(KubeFaults, CancelledWhileItIsDialled_ItsClaimGoes) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  dialer_.hold_dials = true;
  const auto acquired = BeginAcquire(Spec());
  cluster_.GiveMember(OnlyClaim(), "warm-1");
  Run();
  cancel_.Cancel();
  Run();
  EXPECT_FALSE(ExpectFailed(acquired, Reason::kCancelled).ok());
}

TEST_F(KubeFaults, CancelledInTheVeryEventThatMadeItReady_NothingIsLeft) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  dialer_.hold_dials = true;
  const auto acquired = BeginAcquire(Spec());
  cluster_.GiveMember(OnlyClaim(), "warm-1");
  Run();
  dialer_.AnswerDials();
  cancel_.Cancel();
  Run();
  ASSERT_TRUE(acquired->has_value());
  if ((*acquired)->ok()) {
    // It won: its caller has to release it.
    EXPECT_TRUE(Get(backend_->Release((**acquired)->uid)).ok());
  }
  Run();
  EXPECT_TRUE(cluster_.Claims().empty());
}

TEST_F(KubeFaults, CleanUpHasATimeOfItsOwn) {
  Start();
  const auto acquired = BeginAcquire(Spec());
  cluster_.Script({.verb = "delete", .status = 500, .times = 8});
  scheduler_.Advance(seconds(30));
  ASSERT_TRUE(acquired->has_value());
  EXPECT_EQ(cluster_.Claims().size(), 1u);
  scheduler_.Advance(seconds(10));
  EXPECT_TRUE(cluster_.Claims().empty());
}

TEST_F(KubeFaults, PrivilegedSandbox_IsNeverPromised) {
  Start();
  std::string& text = dialer_.status_file;
  text.replace(text.find("CapEff:\t0000000000000000"), 24, "CapEff:\t000001ffffffffff");
  const std::string uid = AcquireWarm();
  const absl::Status status = Remember(uid, Promise());
  EXPECT_EQ(ReasonOf(status), Reason::kPrivilegedSandbox);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("CapEff=000001ffffffffff"));
  EXPECT_TRUE(Get(backend_->Release(uid)).ok());
  EXPECT_TRUE(cluster_.Claims().empty());
}

// The lease's write does not wait for the probe; its answer does.
TEST_F(KubeFaults, ProbeRunsBesideTheLeaseWrite) {
  Start();
  dialer_.hold_probes = true;
  const std::string uid = AcquireWarm();
  const auto remembered = Begin(backend_->Remember(uid, Promise(), std::nullopt));
  EXPECT_EQ(cluster_.Count("patch sandboxclaims"), 1u);
  EXPECT_FALSE(remembered->has_value());
  scheduler_.Advance(seconds(5));
  ASSERT_TRUE(remembered->has_value());
  EXPECT_EQ(ReasonOf(**remembered), Reason::kAgentUnreachable);
}

}  // namespace
}  // namespace sandbroker::testing

// Each trap of the reference that a readiness decision can fall into is a test of its name.
#include "lib/backend/kubernetes/readiness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "lib/base/status.h"
#include "tests/support/kube_objects.h"

namespace sandbroker::kubernetes {
namespace {

namespace json = boost::json;
using Kind = Verdict::Kind;
using sandbroker::testing::AgentStatus;
using sandbroker::testing::Ended;
using sandbroker::testing::GiveToClaim;
using sandbroker::testing::PodJson;
using sandbroker::testing::SandboxJson;
using sandbroker::testing::SetCondition;
using sandbroker::testing::SetDeleting;
using sandbroker::testing::SetReady;
using ::testing::HasSubstr;

json::object ClaimJson() {
  return {{"metadata",
           {{"name", "sb-1"},
            {"uid", "c1"},
            {"labels",
             {{"sandbroker.dev/managed-by", "sandbroker"}, {"sandbroker.dev/pool", "default"}}}}},
          {"spec", {{"warmPoolRef", {{"name", "python"}}}}}};
}

json::object Waiting(const std::string& reason, const std::string& message) {
  return {{"waiting", {{"reason", reason}, {"message", message}}}};
}

// A warm acquire at its end; a test takes something away.
class Readiness : public ::testing::Test {
 protected:
  Readiness() { GiveToClaim(&sandbox_, "sb-1", "c1", true); }

  Verdict Judge() {
    const ClaimView claim = ViewClaim(claim_);
    const SandboxObject sandbox = ViewSandbox(sandbox_);
    const PodView pod = ViewPod(pod_);
    const Seen seen = {has_claim_ ? &claim : nullptr, has_sandbox_ ? &sandbox : nullptr,
                       has_pod_ ? &pod : nullptr};
    return JudgeReadiness(seen, "");
  }
  std::string Why() {
    const Verdict verdict = Judge();
    EXPECT_EQ(verdict.kind, Kind::kWait) << verdict.error;
    return verdict.why;
  }
  // The claim's own condition.
  void ClaimSays(const std::string& reason, const std::string& message) {
    SetReady(&claim_, false, reason, message);
  }
  void SandboxSays(const std::string& reason, const std::string& message) {
    SetReady(&sandbox_, false, reason, message);
  }
  absl::Status Error() {
    const Verdict verdict = Judge();
    EXPECT_EQ(verdict.kind, Kind::kFailed) << verdict.why;
    return verdict.error;
  }
  void ExpectRejected(const std::string& reason, const std::string& message) {
    has_sandbox_ = has_pod_ = false;
    ClaimSays(reason, message);
    const absl::Status error = Error();
    EXPECT_EQ(ReasonOf(error), Reason::kClaimRejected);
    EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(MessageOf(error)), HasSubstr(message));
    EXPECT_EQ(DetailOf(error).metadata.at("controller_reason"), reason);
  }

  json::object claim_ = ClaimJson();
  json::object sandbox_ = SandboxJson("warm-1", "10.0.0.1", "python");
  json::object pod_ = PodJson("warm-1", "10.0.0.1", "p1");
  bool has_claim_ = true;
  bool has_sandbox_ = true;
  bool has_pod_ = true;
};

// agent-sandbox-1.0.3.md 2: 10 to 150 ms before the claim's Ready.
TEST_F(Readiness, OwnedSandbox_IsAuthoritativeBeforeTheClaimSaysSo) {
  const Verdict verdict = Judge();
  ASSERT_EQ(verdict.kind, Kind::kReady) << verdict.why;
  EXPECT_EQ(verdict.place, (Place{"10.0.0.1", "uid-of-warm-1", "p1", "node-1", 0, true}));
}

TEST_F(Readiness, ClaimReadyAlone_IsNotBelieved) {
  SetReady(&claim_, true, "DependenciesReady");
  has_sandbox_ = false;
  EXPECT_EQ(Judge().kind, Kind::kWait);
}

TEST_F(Readiness, SandboxOfThePool_IsNotOurs) {
  sandbox_ = SandboxJson("warm-1", "10.0.0.1", "python");
  EXPECT_EQ(ViewSandbox(sandbox_).claim_uid, "");
}

TEST_F(Readiness, WithoutItsPodNothingIsServed) {
  has_pod_ = false;
  EXPECT_EQ(Judge().kind, Kind::kWait);
}

// agent-sandbox-newer.md 2 and AS#1136: Ready stays True for a dying pod's whole grace up
// to 1.0.10.
TEST_F(Readiness, DyingPod_IsNotServedThoughEverythingSaysReady) {
  SetReady(&claim_, true, "DependenciesReady");
  SetDeleting(&pod_);
  EXPECT_EQ(Why(), "its pod is being ended");
}

// agent-sandbox-1.0.3.md 6: Ready=True with the addresses of the dying pod.
TEST_F(Readiness, QuickResumeLies_AndIsNotBelieved) {
  SetCondition(&sandbox_,
               sandbroker::testing::ConditionJson("Suspended", "False", "NotSuspended", ""));
  SetDeleting(&pod_);
  EXPECT_EQ(Judge().kind, Kind::kWait);
  pod_ = PodJson("warm-1", "10.0.0.9", "p2");
  EXPECT_EQ(Judge().kind, Kind::kWait) << "the sandbox still shows the dead address";
  sandbox_["status"].as_object()["podIPs"] = json::array{"10.0.0.9"};
  EXPECT_EQ(Judge().place.pod_uid, "p2");
}

// OpenShell #2933: Ready does not win over Suspended.
TEST_F(Readiness, SuspendedWins) {
  sandbox_["spec"].as_object()["operatingMode"] = "Suspended";
  EXPECT_EQ(Why(), "its sandbox is suspended");
}

// Trap 5: the address of a dead pod may be somebody else's within seconds.
TEST_F(Readiness, AddressThatThePodDoesNotHave_IsNotDialled) {
  sandbox_["status"].as_object()["podIPs"] = json::array{"10.0.0.2"};
  EXPECT_EQ(Judge().kind, Kind::kWait);
}

// A recreated sandbox of the same name whose former pod is still there.
TEST_F(Readiness, PodOfAFormerSandbox_IsNotServed) {
  sandbox_["metadata"].as_object()["uid"] = "another";
  EXPECT_EQ(Judge().kind, Kind::kWait);
}

TEST_F(Readiness, FailedPod_IsNotServedThoughItsAddressIsShown) {
  pod_["status"].as_object()["phase"] = "Failed";
  AgentStatus(&pod_)["state"] = Ended("Error", 3);
  EXPECT_THAT(Why(), HasSubstr("exit code 3"));
}

TEST_F(Readiness, SandboxBeingDeleted_IsNotServed) {
  SetDeleting(&sandbox_);
  EXPECT_EQ(Judge().kind, Kind::kWait);
}

TEST_F(Readiness, NoAddress_Waits) {
  sandbox_["status"].as_object()["podIPs"] = json::array();
  EXPECT_EQ(Judge().kind, Kind::kWait);
}

TEST_F(Readiness, ColdSandbox_IsCalledCold) {
  GiveToClaim(&sandbox_, "sb-1", "c1", false);
  EXPECT_FALSE(Judge().place.warm);
}

// Trap 10: up to 2 s.
TEST_F(Readiness, NoStatusAtAll_Waits) {
  has_sandbox_ = has_pod_ = false;
  EXPECT_EQ(Why(), "the controller has not answered yet");
}

TEST_F(Readiness, DeletedClaim_IsGone) {
  has_claim_ = false;
  EXPECT_EQ(Judge().kind, Kind::kGone);
  has_claim_ = true;
  SetDeleting(&claim_);
  EXPECT_EQ(Judge().kind, Kind::kGone);
}

TEST_F(Readiness, InvalidMetadata_IsTerminal) {
  ExpectRejected("InvalidMetadata",
                 "invalid additionalPodMetadata: label \"foo\" must have a domain");
}
TEST_F(Readiness, EnvRejected_IsTerminal) {
  ExpectRejected("EnvVarsInjectionRejected", "environment variable injection is not allowed");
}
TEST_F(Readiness, VolumesRejected_IsTerminal) {
  ExpectRejected("VolumeClaimTemplatesError", "failed to merge volume claim templates");
}
TEST_F(Readiness, ClaimExpired_IsTerminal) {
  ExpectRejected("ClaimExpired", "Claim expired. Sandbox cleanup initiated.");
}
TEST_F(Readiness, SandboxExpired_IsTerminal) { ExpectRejected("SandboxExpired", "expired"); }
// agent-sandbox-newer.md: from 1.0.4 on.
TEST_F(Readiness, InvalidConfiguration_IsTerminal) {
  ExpectRejected("InvalidConfiguration", "pod is invalid");
}
// Trap 11 and AS#1570: the controller would retry for ever.
TEST_F(Readiness, MissingPool_IsNamedAtOnce) {
  ExpectRejected("WarmPoolNotFound", "SandboxWarmPool \"python\" not found");
}
TEST_F(Readiness, MissingTemplate_IsNamedAtOnce) {
  ExpectRejected("TemplateNotFound", "SandboxTemplate \"t\" not found");
}
TEST_F(Readiness, EnvOverride_NeverHeals) {
  ExpectRejected("ReconcilerError",
                 "Error seen: environment variable override is not allowed for X");
}
TEST_F(Readiness, UnknownContainer_NeverHeals) {
  ExpectRejected("ReconcilerError",
                 "Error seen: target container \"x\" not found in template \"t\"");
}
// Trap 3: a foreign sandbox has our claim's name.
TEST_F(Readiness, NameCollision_NeverHeals) {
  ExpectRejected("ReconcilerError",
                 "Error seen: sandbox \"sb-1\" is not controlled by claim \"sb-1\". Please use a "
                 "different claim name or delete the sandbox manually");
}

TEST_F(Readiness, TerminalReasonOfTheSandbox_Counts) {
  SandboxSays("InvalidConfiguration", "spec.containers[0].image: Required value");
  EXPECT_EQ(ReasonOf(Error()), Reason::kClaimRejected);
}

TEST_F(Readiness, TerminalReason_CountsOnlyWhileNotReady) {
  SetReady(&claim_, true, "ClaimExpired");
  EXPECT_EQ(Judge().kind, Kind::kReady);
}

// A recreated sandbox waits until the former pod is gone.
TEST_F(Readiness, PodOwnedByTheFormerSandbox_Heals) {
  SandboxSays("ReconcilerError", "Error seen: pod \"n\" is owned by Sandbox/n (UID: 1), not by n");
  EXPECT_THAT(Why(), HasSubstr("is owned by Sandbox"));
}

TEST_F(Readiness, AdoptionConflict_Waits) {
  has_sandbox_ = false;
  ClaimSays("AdoptionConflict", "");
  EXPECT_EQ(Why(), "AdoptionConflict");
}

TEST_F(Readiness, UnknownReason_Waits) {
  has_sandbox_ = false;
  ClaimSays("SomethingNew", "words");
  EXPECT_EQ(Why(), "SomethingNew: words");
}

// Finished appears and vanishes on every replacement of a pod.
TEST_F(Readiness, PodSucceeded_IsNotTerminal) {
  ClaimSays("PodSucceeded", "Pod completed successfully");
  SandboxSays("PodSucceeded", "Pod completed successfully");
  EXPECT_EQ(Judge().kind, Kind::kWait);
}

TEST_F(Readiness, HashCollision_IsTold) {
  SandboxSays("MultiplePods", "2 pods found");
  EXPECT_EQ(Why(), "MultiplePods: 2 pods found");
}

// The claim says only «Pod exists with phase: Pending» for ever.
TEST_F(Readiness, Unschedulable_IsToldInTheSchedulersWords) {
  SandboxSays("DependenciesNotReady", "Pod exists with phase: Pending");
  const std::string words = "0/1 nodes are available: 1 Insufficient memory.";
  SetCondition(&sandbox_,
               sandbroker::testing::ConditionJson("PodScheduled", "False", "Unschedulable", words));
  EXPECT_EQ(Why(), "Unschedulable: " + words);
  EXPECT_THAT(std::string(MessageOf(NotReadyInTime(Judge()))), HasSubstr(words));
  has_pod_ = false;
  EXPECT_EQ(Why(), "Unschedulable: " + words);
}

TEST_F(Readiness, ImageThatCanNotBeHad_FailsInThePodsWords) {
  for (const std::string reason :
       {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}) {
    SandboxSays("DependenciesNotReady", "Pod exists with phase: Pending");
    AgentStatus(&pod_)["state"] = Waiting(reason, "image \"x\" is not present");
    const absl::Status error = Error();
    EXPECT_EQ(ReasonOf(error), Reason::kImagePull);
    EXPECT_THAT(std::string(MessageOf(error)), HasSubstr(reason + ": image \"x\" is not present"));
    EXPECT_EQ(DetailOf(error).metadata.at("node"), "node-1");
  }
}

// A pod's first seconds.
TEST_F(Readiness, ContainerCreating_IsNoTrouble) {
  SandboxSays("DependenciesNotReady", "Pod exists with phase: Pending");
  AgentStatus(&pod_)["state"] = Waiting("ContainerCreating", "");
  EXPECT_EQ(Why(), "DependenciesNotReady: Pod exists with phase: Pending");
}

TEST_F(Readiness, CrashLoop_WaitsWithItsWords) {
  SandboxSays("DependenciesNotReady", "Pod is Running but not Ready");
  AgentStatus(&pod_)["state"] = Waiting("CrashLoopBackOff", "back-off 10s");
  EXPECT_THAT(Why(), HasSubstr("CrashLoopBackOff: back-off 10s"));
}

// AS#1513: a member with an address is adopted although its probe fails, and stays so.
TEST_F(Readiness, NotReadyMemberAdopted_Waits) {
  SandboxSays("DependenciesNotReady", "Pod is Running but not Ready");
  EXPECT_EQ(Why(), "DependenciesNotReady: Pod is Running but not Ready");
}

TEST_F(Readiness, EndOfTheBound_HasTheBestWords) {
  EXPECT_EQ(ReasonOf(NotReadyInTime({})), Reason::kNotReady);
  EXPECT_EQ(NotReadyInTime({}).code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace sandbroker::kubernetes

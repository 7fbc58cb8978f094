#include "lib/backend/kubernetes/incarnation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/kube_objects.h"

namespace sandbroker::kubernetes {
namespace {

namespace json = boost::json;
using Kind = Life::Kind;
using sandbroker::testing::AgentStatus;
using sandbroker::testing::ConditionJson;
using sandbroker::testing::Ended;
using sandbroker::testing::PodJson;
using sandbroker::testing::SandboxJson;
using sandbroker::testing::SetCondition;
using sandbroker::testing::SetDeleting;

// A sandbox that was handed out; a test does something to it.
class Incarnation : public ::testing::Test {
 protected:
  Incarnation() { sandbroker::testing::GiveToClaim(&sandbox_, "sb-1", "c1", true); }

  Life Judge() {
    ClaimView claim;
    claim.meta.uid = "c1";
    claim.meta.deleting = claim_deleting_;
    const SandboxObject sandbox = ViewSandbox(sandbox_);
    const PodView pod = ViewPod(pod_);
    const PodView last = ViewPod(last_pod_);
    const Seen seen = {has_claim_ ? &claim : nullptr, has_sandbox_ ? &sandbox : nullptr,
                       has_pod_ ? &pod : nullptr};
    return JudgeLife(served_, seen, &last, "");
  }
  std::string Cause() {
    const Life life = Judge();
    EXPECT_EQ(life.kind, Kind::kOver);
    return life.cause;
  }
  void PodEnds(const std::string& phase) { pod_["status"].as_object()["phase"] = phase; }

  const Place served_ = {"10.0.0.1", "uid-of-warm-1", "p1", "node-1", 0, true};
  json::object sandbox_ = SandboxJson("warm-1", "10.0.0.1", "python");
  json::object pod_ = PodJson("warm-1", "10.0.0.1", "p1");
  json::object last_pod_ = pod_;
  bool has_claim_ = true;
  bool claim_deleting_ = false;
  bool has_sandbox_ = true;
  bool has_pod_ = true;
};

TEST_F(Incarnation, NothingChanged_IsTheSame) { EXPECT_EQ(Judge().kind, Kind::kSame); }

// Trap 7, and newer controllers at every drain.
TEST_F(Incarnation, ReadyFlap_IsTheSame) {
  sandbroker::testing::SetReady(&sandbox_, false, "DependenciesNotReady");
  EXPECT_EQ(Judge().kind, Kind::kSame);
}

// A claim event may overtake its sandbox's: only the pod counts.
TEST_F(Incarnation, SandboxNotSeen_IsTheSameWhileThePodIs) {
  has_sandbox_ = false;
  pod_ = last_pod_;
  EXPECT_EQ(Judge().kind, Kind::kSame);
}

TEST_F(Incarnation, PodBeingDeleted_IsEnding) {
  SetDeleting(&pod_);
  EXPECT_EQ(Judge().kind, Kind::kEnding);
  EXPECT_EQ(Judge().cause, "pod deleted");
}

TEST_F(Incarnation, PodGone_IsOver) {
  has_pod_ = false;
  EXPECT_EQ(Cause(), "pod deleted");
}

// Trap 4: same name, same sandbox uid.
TEST_F(Incarnation, PodReplaced_IsOver) {
  pod_ = PodJson("warm-1", "10.0.0.2", "p2");
  EXPECT_EQ(Cause(), "replaced");
}

// Trap 4: same claim uid, another sandbox.
TEST_F(Incarnation, Rebound_IsOver) {
  sandbox_ = SandboxJson("warm-2", "10.0.0.2", "python");
  pod_ = PodJson("warm-2", "10.0.0.2", "p2");
  EXPECT_EQ(Cause(), "replaced");
}

// WarmPoolNotFound with the dead sandbox's name and address for good.
TEST_F(Incarnation, SandboxGoneAndNothingElse_IsOver) {
  has_sandbox_ = has_pod_ = false;
  EXPECT_EQ(Cause(), "pod deleted");
}

// Another replica's release looks the same. Nothing takes it back, so nobody waits for its pod.
TEST_F(Incarnation, ClaimDeletedFromOutside_IsOverAtOnce) {
  claim_deleting_ = true;
  EXPECT_EQ(Cause(), "deleted");
  has_claim_ = false;
  EXPECT_EQ(Cause(), "deleted");
}

TEST_F(Incarnation, Evicted_IsTold) {
  PodEnds("Failed");
  pod_["status"].as_object()["reason"] = "Evicted";
  pod_["status"].as_object()["message"] = "The node was low on resource: memory.";
  EXPECT_EQ(Cause(), "evicted: The node was low on resource: memory.");
}

TEST_F(Incarnation, EvictedByTheApi_IsTold) {
  SetCondition(&pod_, ConditionJson("DisruptionTarget", "True", "EvictionByEvictionAPI", ""));
  SetDeleting(&pod_);
  EXPECT_EQ(Judge().cause, "evicted: EvictionByEvictionAPI");
}

// centaur #1454, #1521: only the pod says so.
TEST_F(Incarnation, OutOfMemory_IsTold) {
  PodEnds("Failed");
  AgentStatus(&pod_)["state"] = Ended("OOMKilled", 137);
  EXPECT_EQ(Cause(), "out of memory");
}

TEST_F(Incarnation, CauseOutlivesThePod) {
  last_pod_["status"].as_object()["phase"] = "Failed";
  AgentStatus(&last_pod_)["state"] = Ended("OOMKilled", 137);
  pod_ = PodJson("warm-1", "10.0.0.2", "p2");
  EXPECT_EQ(Cause(), "out of memory");
  has_pod_ = false;
  EXPECT_EQ(Cause(), "out of memory");
}

TEST_F(Incarnation, CauseOfAnotherPod_IsNotTaken) {
  last_pod_ = PodJson("warm-1", "10.0.0.3", "p0");
  AgentStatus(&last_pod_)["state"] = Ended("OOMKilled", 137);
  has_pod_ = false;
  EXPECT_EQ(Cause(), "pod deleted");
}

TEST_F(Incarnation, ExitCode_IsTold) {
  PodEnds("Failed");
  AgentStatus(&pod_)["state"] = Ended("Error", 3);
  EXPECT_EQ(Cause(), "exit code 3");
}

// A deleted pod's containers end with 143 or 0: who deleted it is the cause.
TEST_F(Incarnation, DeletedPodsExitCode_IsNotTheCause) {
  SetDeleting(&pod_);
  PodEnds("Succeeded");
  AgentStatus(&pod_)["state"] = Ended("Completed", 0);
  EXPECT_EQ(Cause(), "pod deleted");
}

// restartPolicy Always: same pod uid, same address.
TEST_F(Incarnation, ContainerRestarted_IsOver) {
  AgentStatus(&pod_)["restartCount"] = 1;
  AgentStatus(&pod_)["lastState"] = Ended("Error", 7);
  EXPECT_EQ(Cause(), "restarted: exit code 7");
  AgentStatus(&pod_)["lastState"] = Ended("OOMKilled", 137);
  EXPECT_EQ(Cause(), "out of memory");
}

TEST_F(Incarnation, ContainerEndedAndNotYetRestarted_IsOver) {
  AgentStatus(&pod_)["state"] = Ended("Error", 7);
  EXPECT_EQ(Cause(), "exit code 7");
}

TEST_F(Incarnation, SidecarRestarted_IsTheSame) {
  pod_["status"]
      .at("containerStatuses")
      .as_array()
      .push_back(json::object{{"name", "sidecar"}, {"restartCount", 4}});
  EXPECT_EQ(Judge().kind, Kind::kSame);
}

}  // namespace
}  // namespace sandbroker::kubernetes

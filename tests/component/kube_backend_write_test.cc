// The lease and the claim on Kubernetes: one conditional write, and what several brokers that write
// one claim make of each other.
#include "lib/backend/kubernetes/times.h"
#include "tests/component/kube_backend_fixture.h"

namespace sandbroker::testing {
namespace {

using kubernetes::FormatNanos;
using kubernetes::FormatSeconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kUntil[] = "sandbroker.dev/lease-until";

class KubeWrite : public KubeBackendFixture {
 protected:
  std::string Start1() {
    Start();
    uid_ = Bound();
    claim_ = OnlyClaim();
    observer_.said.clear();
    cluster_.ClearLog();
    return uid_;
  }
  std::string UntilText() {
    const json::object claim = cluster_.Claim(claim_);
    const json::object& notes = claim.at("metadata").at("annotations").as_object();
    return std::string(notes.at(kUntil).as_string().c_str());
  }
  // Another broker writes, and this one has not heard of it yet.
  void OtherWrites(Duration until) {
    cluster_.HoldEvents("sandboxclaims");
    const std::string text = FormatNanos(scheduler_.WallNow() + until);
    cluster_.ChangeClaim(claim_, [&](json::object& claim) {
      claim["metadata"].at("annotations").as_object()[kUntil] = text;
    });
  }
  std::string uid_;
  std::string claim_;
};

TEST_F(KubeWrite, Lease_IsOnePatchWithItsBackstop) {
  Start1();
  const broker::Claim claim = Promise(minutes(13));
  EXPECT_TRUE(Remember(uid_, claim).ok());
  EXPECT_EQ(UntilText(), FormatNanos(claim.until));
  EXPECT_EQ(TextAt(cluster_.Claim(claim_), "spec.lifecycle.shutdownTime"),
            FormatSeconds(claim.until + minutes(10)));
  EXPECT_THAT(cluster_.log(), ElementsAre("patch sandboxclaims"));
  EXPECT_THAT(observer_.said, IsEmpty()) << "its own write is no news";
}

TEST_F(KubeWrite, Several_TakeEffectInTheirOrder) {
  Start1();
  cluster_.Script({.verb = "patch", .what = What::kHold});
  const auto first = Begin(backend_->Remember(uid_, Promise(minutes(11)), std::nullopt));
  const auto second = Begin(backend_->Remember(uid_, Promise(minutes(12)), std::nullopt));
  EXPECT_EQ(cluster_.Count("patch sandboxclaims"), 1u);
  cluster_.Release();
  Run();
  EXPECT_TRUE(first->has_value() && (*first)->ok());
  EXPECT_TRUE(second->has_value() && (*second)->ok());
  EXPECT_EQ(UntilText(), FormatNanos(scheduler_.WallNow() + minutes(12)));
}

TEST_F(KubeWrite, RefusedAndStillForward_IsWrittenOnTop) {
  Start1();
  OtherWrites(minutes(12));
  EXPECT_TRUE(Remember(uid_, Promise(minutes(15))).ok());
  EXPECT_EQ(UntilText(), FormatNanos(scheduler_.WallNow() + minutes(15)));
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("changed ", uid_)));
  EXPECT_EQ(cluster_.Count("patch sandboxclaims"), 2u);
}

TEST_F(KubeWrite, RefusedAndNotForward_StandsAsTheOtherWroteIt) {
  Start1();
  OtherWrites(minutes(20));
  EXPECT_TRUE(Remember(uid_, Promise(minutes(15))).ok());
  EXPECT_EQ(UntilText(), FormatNanos(scheduler_.WallNow() + minutes(20)));
  ASSERT_EQ(observer_.changed.size(), 1u);
  EXPECT_EQ(observer_.changed[0].until, scheduler_.WallNow() + minutes(20));
  EXPECT_EQ(cluster_.Count("patch sandboxclaims"), 1u);
}

// The broker made it before it heard of the other's.
TEST_F(KubeWrite, MadeFromAnOlderClaim_IsMergedWithTheOneThatStands) {
  Start1();
  const broker::Claim base = Promise();
  OtherWrites(minutes(20));
  cluster_.Deliver("sandboxclaims");
  Run();
  cluster_.ClearLog();
  EXPECT_TRUE(Remember(uid_, Promise(minutes(15)), base).ok());
  EXPECT_THAT(cluster_.log(), IsEmpty()) << "there is nothing left to say";
  EXPECT_TRUE(Remember(uid_, Promise(minutes(25)), base).ok());
  EXPECT_EQ(UntilText(), FormatNanos(scheduler_.WallNow() + minutes(25)));
}

TEST_F(KubeWrite, OthersWrite_IsHeardOfOnce) {
  Start1();
  OtherWrites(minutes(20));
  cluster_.Deliver("sandboxclaims");
  Run();
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("changed ", uid_)));
  cluster_.ClaimSays(claim_, true, "DependenciesReady");
  Run();
  EXPECT_EQ(observer_.said.size(), 1u);
}

TEST_F(KubeWrite, UnknownAndWritten_IsFoundByARead) {
  Start1();
  cluster_.Script({.verb = "patch", .what = What::kLostAfter});
  EXPECT_TRUE(Remember(uid_, Promise(minutes(15))).ok());
  EXPECT_EQ(cluster_.Count("patch sandboxclaims"), 1u);
  EXPECT_EQ(cluster_.Count("get sandboxclaims"), 1u);
  EXPECT_THAT(observer_.said, IsEmpty());
}

TEST_F(KubeWrite, UnknownAndNotWritten_IsWrittenAgain) {
  Start1();
  cluster_.Script({.verb = "patch", .what = What::kLost});
  EXPECT_TRUE(Remember(uid_, Promise(minutes(15))).ok());
  EXPECT_EQ(cluster_.Count("patch sandboxclaims"), 2u);
  EXPECT_EQ(UntilText(), FormatNanos(scheduler_.WallNow() + minutes(15)));
}

TEST_F(KubeWrite, RefusedWithoutAReason_IsNotTriedForEver) {
  Start1();
  cluster_.Script({.verb = "patch", .status = 422, .reason = "Invalid", .times = -1});
  EXPECT_EQ(ReasonOf(Remember(uid_, Promise(minutes(15)))), Reason::kClaimRejected);
  EXPECT_EQ(cluster_.Count("patch sandboxclaims"), 1u);
}

TEST_F(KubeWrite, ServerOutOfReach_PromisesNothing) {
  Start1();
  cluster_.Script({.verb = "patch", .what = What::kNotSent});
  EXPECT_EQ(ReasonOf(Remember(uid_, Promise(minutes(15)))), Reason::kApiUnreachable);
}

TEST_F(KubeWrite, MissingRight_IsNamed) {
  Start1();
  cluster_.Script({.verb = "patch", .status = 403, .reason = "Forbidden"});
  const absl::Status status = Remember(uid_, Promise(minutes(15)));
  EXPECT_EQ(ReasonOf(status), Reason::kBrokerForbidden);
  EXPECT_EQ(DetailOf(status).metadata.at("verb"), "patch");
}

TEST_F(KubeWrite, ClaimGone_IsToldByTheAnswer) {
  Start1();
  cluster_.HoldEvents("sandboxclaims");
  cluster_.RemoveClaim(claim_);
  EXPECT_EQ(ReasonOf(Remember(uid_, Promise(minutes(15)))), Reason::kSandboxGone);
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("gone ", uid_, " deleted")));
}

// A 200 near the end proves nothing: the controller deletes without a precondition.
TEST_F(KubeWrite, NearTheBackstop_IsReadAgain) {
  Start1();
  scheduler_.Advance(minutes(20) - seconds(1));
  cluster_.ClearLog();
  EXPECT_TRUE(Remember(uid_, Promise(minutes(15))).ok());
  EXPECT_THAT(cluster_.log(), ElementsAre("patch sandboxclaims", "get sandboxclaims"));
}

TEST_F(KubeWrite, Reread_IsConsistentAndTellsWhatStands) {
  Start1();
  OtherWrites(minutes(20));
  const auto claim = Get(backend_->Reread(uid_));
  ASSERT_TRUE(claim.ok()) << claim.status();
  EXPECT_EQ(claim->until, scheduler_.WallNow() + minutes(20));
  cluster_.RemoveClaim(claim_);
  EXPECT_EQ(ReasonOf(Get(backend_->Reread(uid_)).status()), Reason::kSandboxGone);
}

TEST_F(KubeWrite, ReleaseUnchanged_TakesTheVersionThatWasRead) {
  Start1();
  const auto claim = Get(backend_->Reread(uid_));
  ASSERT_TRUE(claim.ok());
  EXPECT_TRUE(*Get(backend_->ReleaseUnchanged(uid_, *claim)));
  EXPECT_THAT(cluster_.Claims(), IsEmpty());
  EXPECT_THAT(observer_.said, IsEmpty());
}

// T100 and the like: somebody renewed between the look and the reaping.
TEST_F(KubeWrite, ReleaseUnchanged_OfARenewedOneIsRefused) {
  Start1();
  const auto claim = Get(backend_->Reread(uid_));
  OtherWrites(minutes(20));
  const auto released = Get(backend_->ReleaseUnchanged(uid_, *claim));
  ASSERT_TRUE(released.ok());
  EXPECT_FALSE(*released);
  EXPECT_EQ(cluster_.Claims().size(), 1u);
  EXPECT_THAT(observer_.said, ElementsAre(StrCat("changed ", uid_)));
}

// Only the controller wrote in between: decided again.
TEST_F(KubeWrite, ReleaseUnchanged_AgainstTheControllersWriteGoesOn) {
  Start1();
  const auto claim = Get(backend_->Reread(uid_));
  cluster_.Script({.verb = "delete", .status = 409, .reason = "Conflict"});
  EXPECT_TRUE(*Get(backend_->ReleaseUnchanged(uid_, *claim)));
  EXPECT_THAT(cluster_.Claims(), IsEmpty());
}

TEST_F(KubeWrite, Restamp_TakesTheClaimFromItsOldHolder) {
  Start();
  cluster_.AddMember("python", "warm-1", "10.0.0.1");
  Run();
  broker::AcquireSpec spec = Spec();
  spec.claimant.receipt = std::string(64, 'e');
  spec.claimant.token = "first";
  const auto acquired = BeginAcquire(spec);
  claim_ = OnlyClaim();
  cluster_.GiveMember(claim_, "warm-1");
  Run();
  const std::string uid = (**acquired)->uid;
  cluster_.HoldEvents("sandboxclaims");
  // Another try has taken the receipt over and put its token on the claim.
  cluster_.ChangeClaim(claim_, [](json::object& claim) {
    claim["metadata"].at("labels").as_object()["sandbroker.dev/holder"] = "second";
  });
  broker::Claim ours = Promise();
  ours.receipt = spec.claimant.receipt;
  ours.token = "first";
  EXPECT_TRUE(Remember(uid, ours).ok());
  ASSERT_EQ(observer_.changed.size(), 1u);
  EXPECT_EQ(observer_.changed[0].token, "second");
  EXPECT_EQ(cluster_.Claim(claim_).at("metadata").at("labels").at("sandbroker.dev/holder"),
            "second");
  EXPECT_EQ(UntilText(), FormatNanos(ours.until));
}

}  // namespace
}  // namespace sandbroker::testing

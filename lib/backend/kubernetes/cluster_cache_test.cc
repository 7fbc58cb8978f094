#include "lib/backend/kubernetes/cluster_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/backend/kubernetes/names.h"
#include "tests/support/kube_objects.h"

namespace sandbroker::kubernetes {
namespace {

namespace json = boost::json;
using sandbroker::testing::PodJson;
using sandbroker::testing::SandboxJson;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

ClaimView Claim(const std::string& name, const std::string& uid) {
  ClaimView view;
  view.meta.name = name;
  view.meta.uid = uid;
  view.ours = true;
  view.warm_pool = "python";
  return view;
}

SandboxObject Owned(const std::string& name, const std::string& claim_uid) {
  json::object object = SandboxJson(name, "10.0.0.1", "python");
  sandbroker::testing::GiveToClaim(&object, "sb-1", claim_uid, true);
  return ViewSandbox(object);
}

SandboxObject Member(const std::string& name) {
  return ViewSandbox(SandboxJson(name, "10.0.0.1", "python"));
}

PodView Pod(const std::string& name, const std::string& uid) {
  return ViewPod(PodJson(name, "10.0.0.1", uid));
}

TEST(ClusterCache, ClaimSandboxAndPod_AreJoinedInAnyOrder) {
  ClusterCache cache;
  EXPECT_THAT(cache.PutPod(Pod("warm-1", "p1")), IsEmpty());
  EXPECT_THAT(cache.PutSandbox(Owned("warm-1", "c1")), ElementsAre("c1"));
  EXPECT_EQ(cache.Look("c1").claim, nullptr);
  EXPECT_THAT(cache.PutClaim(Claim("sb-1", "c1")), ElementsAre("c1"));
  const Seen seen = cache.Look("c1");
  ASSERT_NE(seen.claim, nullptr);
  ASSERT_NE(seen.sandbox, nullptr);
  ASSERT_NE(seen.pod, nullptr);
  EXPECT_EQ(seen.pod->meta.uid, "p1");
  EXPECT_THAT(cache.PutPod(Pod("warm-1", "p2")), ElementsAre("c1"));
}

TEST(ClusterCache, ClaimsOfOthers_ArePassedOver) {
  ClusterCache cache;
  ClaimView foreign = Claim("sb-1", "c1");
  foreign.ours = false;
  EXPECT_THAT(cache.PutClaim(foreign), IsEmpty());
  EXPECT_EQ(cache.Claim("c1"), nullptr);
}

TEST(ClusterCache, SandboxThatChangesItsOwner_TouchesBoth) {
  ClusterCache cache;
  cache.PutSandbox(Owned("warm-1", "c1"));
  EXPECT_THAT(cache.PutSandbox(Owned("warm-1", "c2")), UnorderedElementsAre("c1", "c2"));
  EXPECT_EQ(cache.Look("c1").sandbox, nullptr);
}

// Chapter 10: DELETED for a claim with the same name recreated at once.
TEST(ClusterCache, NameMadeAgain_BelongsToTheNewOne) {
  ClusterCache cache;
  cache.PutClaim(Claim("sb-1", "c1"));
  EXPECT_THAT(cache.PutClaim(Claim("sb-1", "c2")), UnorderedElementsAre("c1", "c2"));
  EXPECT_EQ(cache.Claim("c1"), nullptr);
  EXPECT_THAT(cache.RemoveClaim(Claim("sb-1", "c1").meta), IsEmpty());
  ASSERT_NE(cache.ClaimNamed("sb-1"), nullptr);
  EXPECT_EQ(cache.ClaimNamed("sb-1")->meta.uid, "c2");
}

// AS #1398: a late event of the old pod does not evict its successor.
TEST(ClusterCache, LateDeletion_DoesNotEvictTheSuccessor) {
  ClusterCache cache;
  cache.PutSandbox(Owned("warm-1", "c1"));
  cache.PutPod(Pod("warm-1", "p2"));
  EXPECT_THAT(cache.RemovePod(Pod("warm-1", "p1").meta), IsEmpty());
  EXPECT_NE(cache.PodOf("warm-1"), nullptr);
  Meta old = Owned("warm-1", "c1").meta;
  old.uid = "older";
  EXPECT_THAT(cache.RemoveSandbox(old), IsEmpty());
  EXPECT_NE(cache.Look("c1").sandbox, nullptr);
}

TEST(ClusterCache, TwoSandboxesOfOneClaim_TheLivingOneCounts) {
  ClusterCache cache;
  SandboxObject dying = Owned("warm-1", "c1");
  dying.meta.deleting = true;
  cache.PutSandbox(dying);
  cache.PutSandbox(Owned("warm-2", "c1"));
  EXPECT_EQ(cache.Look("c1").sandbox->meta.name, "warm-2");
  cache.PutSandbox(Owned("a-dying", "c1"));
  SandboxObject first = Owned("a-dying", "c1");
  first.meta.deleting = true;
  cache.PutSandbox(first);
  EXPECT_EQ(cache.Look("c1").sandbox->meta.name, "warm-2");
}

TEST(ClusterCache, PodsOfOthers_AreNotKept) {
  ClusterCache cache;
  PodView foreign = Pod("web-1", "p1");
  foreign.sandbox_uid.clear();
  cache.PutPod(foreign);
  EXPECT_EQ(cache.PodOf("web-1"), nullptr);
}

TEST(ClusterCache, Members_AreCountedOnce) {
  ClusterCache cache;
  cache.PutSandbox(Member("warm-1"));
  SandboxObject pending = Member("warm-2");
  pending.ips.clear();
  cache.PutSandbox(pending);
  SandboxObject dying = Member("warm-3");
  dying.meta.deleting = true;
  cache.PutSandbox(dying);
  cache.PutClaim(Claim("sb-1", "c1"));
  cache.PutClaim(Claim("sb-2", "c2"));
  cache.PutSandbox(Owned("warm-4", "c2"));
  ClaimView other = Claim("sb-3", "c3");
  other.warm_pool = "ruby";
  cache.PutClaim(other);
  const auto members = cache.MembersOf("python");
  EXPECT_EQ(members.ready, 1u);
  EXPECT_EQ(members.pending, 1u);
  EXPECT_EQ(members.unbound, 1u);
  EXPECT_EQ(members.bound, 1u);
  // Adopted: it leaves the pool and is bound in one event.
  cache.PutSandbox(Owned("warm-1", "c1"));
  EXPECT_EQ(cache.MembersOf("python").ready, 0u);
  EXPECT_EQ(cache.MembersOf("python").unbound, 0u);
}

TEST(ClusterCache, Hashes_FollowTheNames) {
  ClusterCache cache;
  cache.PutSandbox(Member("warm-1"));
  EXPECT_TRUE(cache.HashTaken(NameHash("warm-1")));
  cache.RemoveSandbox(Member("warm-1").meta);
  EXPECT_FALSE(cache.HashTaken(NameHash("warm-1")));
}

}  // namespace
}  // namespace sandbroker::kubernetes

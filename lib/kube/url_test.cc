#include "lib/kube/url.h"

#include <gtest/gtest.h>

namespace sandbroker::kube {
namespace {

TEST(UrlTest, EscapeUrl_KeepsOnlyWhatCanNotEndASegment) {
  EXPECT_EQ(EscapeUrl("a-Z_0.9~"), "a-Z_0.9~");
  EXPECT_EQ(EscapeUrl("a/b?c=d&e#f%g h+\xff"), "a%2Fb%3Fc%3Dd%26e%23f%25g%20h%2B%FF");
}

TEST(UrlTest, ResourcePath_CoreAndNamedGroups_WithAndWithoutSpaceAndName) {
  EXPECT_EQ(ResourcePath({"", "v1", "pods"}, "ns"), "/api/v1/namespaces/ns/pods");
  EXPECT_EQ(ResourcePath({"agents.x-k8s.io", "v1beta1", "sandboxes"}, "ns", "one"),
            "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes/one");
  EXPECT_EQ(ResourcePath({"", "v1", "nodes"}, ""), "/api/v1/nodes");
  EXPECT_EQ(ResourcePath({"", "v1", "pods"}, "../x", "a/b"),
            "/api/v1/namespaces/..%2Fx/pods/a%2Fb");
}

TEST(UrlTest, AddQuery_MarksTheFirstAndEscapesAll) {
  std::string target = "/x";
  AddQuery(&target, "labelSelector", "a in (b,c),d!=e");
  AddQuery(&target, "limit", "500");
  EXPECT_EQ(target, "/x?labelSelector=a%20in%20%28b%2Cc%29%2Cd%21%3De&limit=500");
}

TEST(UrlTest, IsPathName_RefusesWhatWouldAskForSomethingElse) {
  for (const char* good : {"a", "sb-1.x", "system:node"}) EXPECT_TRUE(IsPathName(good)) << good;
  for (const char* bad : {"", ".", "..", "a/b", "a?b", "a b", "a%2f", "\xc3\xa4"}) {
    EXPECT_FALSE(IsPathName(bad)) << bad;
  }
  EXPECT_FALSE(IsPathName(std::string(254, 'a')));
}

}  // namespace
}  // namespace sandbroker::kube

#include "lib/backend/kubernetes/views.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "tests/support/kube_objects.h"

namespace sandbroker::kubernetes {
namespace {

namespace json = boost::json;
using testing::AgentStatus;
using testing::Ended;
using testing::PodJson;
using testing::PoolJson;
using testing::SandboxJson;

TEST(Views, Sandbox_OfAPoolThenOfAClaim) {
  json::object object = SandboxJson("warm-1", "10.0.0.1", "python");
  SandboxObject view = ViewSandbox(object);
  EXPECT_EQ(view.meta.name, "warm-1");
  EXPECT_EQ(view.warm_pool, "python");
  EXPECT_EQ(view.claim_uid, "");
  EXPECT_TRUE(view.Addressed());
  testing::GiveToClaim(&object, "sb-1", "c1", true);
  view = ViewSandbox(object);
  EXPECT_EQ(view.warm_pool, "");
  EXPECT_EQ(view.claim_uid, "c1");
  EXPECT_EQ(view.launch, "warm");
  testing::SetDeleting(&object);
  EXPECT_FALSE(ViewSandbox(object).Addressed());
}

TEST(Views, Pod_TellsContainersAndTheirEnds) {
  json::object object = PodJson("warm-1", "10.0.0.1", "p1");
  AgentStatus(&object)["restartCount"] = 2;
  AgentStatus(&object)["lastState"] = Ended("OOMKilled", 137);
  const PodView view = ViewPod(object);
  EXPECT_EQ(view.sandbox_uid, "uid-of-warm-1");
  EXPECT_EQ(view.ip, "10.0.0.1");
  EXPECT_EQ(view.first_container, "agent");
  const ContainerView* agent = AgentContainer(view, "");
  ASSERT_NE(agent, nullptr);
  EXPECT_EQ(agent->restarts, 2);
  EXPECT_FALSE(agent->ended.there);
  EXPECT_EQ(agent->last_ended.reason, "OOMKilled");
  EXPECT_EQ(agent->last_ended.exit_code, 137);
  EXPECT_EQ(AgentContainer(view, "sidecar"), nullptr);
}

TEST(Views, Pool_TellsWhatIsWanted) {
  const PoolView view = ViewPool(PoolJson("python", 5));
  EXPECT_EQ(view.wanted, 5);
  EXPECT_EQ(view.template_name, "t");
}

TEST(Views, AnOwnerThatDoesNotControlIsNone) {
  json::object object = SandboxJson("warm-1", "10.0.0.1", "python");
  testing::GiveToClaim(&object, "sb-1", "c1", true);
  object["metadata"].at("ownerReferences").as_array()[0].as_object()["controller"] = false;
  EXPECT_EQ(ViewSandbox(object).claim_uid, "");
}

TEST(Views, HostileObjects_ReadAsEmpty) {
  for (const char* text :
       {"{}", R"({"metadata":7,"spec":[],"status":"x"})",
        R"({"metadata":{"name":7,"uid":[],"labels":[1],"annotations":null,"ownerReferences":{}}})",
        R"({"status":{"conditions":[1,null,{"type":7},{"type":"Ready","status":true}]}})",
        R"({"status":{"podIPs":[1,"",{}],"containerStatuses":[7,{"state":[]}],"podIP":{}}})",
        R"({"metadata":{"ownerReferences":[null,{"kind":"Sandbox","controller":"true"}]}})"}) {
    const json::object object = json::parse(text).as_object();
    EXPECT_EQ(ViewClaim(object).meta.uid, "") << text;
    EXPECT_FALSE(ViewClaim(object).ours) << text;
    EXPECT_FALSE(ViewSandbox(object).Addressed()) << text;
    EXPECT_EQ(ViewSandbox(object).claim_uid, "") << text;
    EXPECT_EQ(ViewPod(object).sandbox_uid, "") << text;
    EXPECT_EQ(ViewPod(object).ip, "") << text;
    EXPECT_EQ(ViewPool(object).wanted, 0) << text;
  }
}

TEST(Views, HostileSizes_AreBounded) {
  json::object object = SandboxJson("warm-1", "10.0.0.1", "python");
  object["metadata"].as_object()["uid"] = std::string(100000, 'u');
  testing::SetReady(&object, false, std::string(100000, 'r'), std::string(100000, '\x01'));
  json::array ips;
  for (int i = 0; i < 100000; ++i) ips.push_back("10.0.0.1");
  object["status"].as_object()["podIPs"] = std::move(ips);
  const SandboxObject view = ViewSandbox(object);
  EXPECT_EQ(view.meta.uid, "");
  EXPECT_EQ(view.ready.reason, "");
  EXPECT_LE(view.ready.message.size(), 4096u);
  EXPECT_LE(view.ips.size(), 64u);
}

TEST(Views, Words_CanNotCarryControlBytes) {
  json::object object = SandboxJson("warm-1", "10.0.0.1", "python");
  testing::SetReady(&object, false, "ReconcilerError", "a\nb\x1b[31m");
  EXPECT_EQ(ViewSandbox(object).ready.message, "a\\nb\\x1b[31m");
}

}  // namespace
}  // namespace sandbroker::kubernetes

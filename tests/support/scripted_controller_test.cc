// The scripted controller keeps to the order of the real one.
#include "tests/support/scripted_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <string>

namespace sandbroker::testing {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;

const std::string kSpace = "space";

class ScriptedControllerTest : public ::testing::Test {
 protected:
  ScriptedApiServer server_;
};

json::object Claim(const std::string& name, const std::string& pool) {
  return {{"metadata", {{"name", name}}}, {"spec", {{"warmPoolRef", {{"name", pool}}}}}};
}

TEST_F(ScriptedControllerTest, WarmClaim_IsServedInTheOrderOfTheRealOne) {
  ScriptedController controller(server_, kSpace);
  controller.AddPool("pool", 1);
  controller.SetAutomatic(false);
  server_.Add(kClaims, kSpace, Claim("c", "pool"));
  ASSERT_TRUE(controller.AwaitClaim("c"));
  EXPECT_THAT(controller.Steps("c"), ElementsAre("observed", "hint", "owned", "ready", "pod",
                                                 "first-ready", "unknown", "settled"));
  ASSERT_TRUE(controller.StepTo("c", "owned"));
  const std::string sandbox = controller.SandboxOf("c");
  ASSERT_FALSE(sandbox.empty());
  EXPECT_EQ(At(*server_.Find(kClaims, kSpace, "c"), "status"), nullptr);
  controller.Finish("c");
  const auto claim = server_.Find(kClaims, kSpace, "c");
  EXPECT_EQ(TextAt(*claim, "status.sandbox.name"), sandbox);
  EXPECT_EQ(*At(*claim, "metadata.generation"), 2);
  server_.Remove(kClaims, kSpace, "c");
  ASSERT_TRUE(server_.Await([&] { return !server_.Find(kPods, kSpace, sandbox); }));
}

TEST_F(ScriptedControllerTest, EachWay_EndsAsItShould) {
  using Way = ScriptedController::Way;
  ScriptedController controller(server_, kSpace);
  controller.AddPool("pool", 2);
  const auto reason = [&](const std::string& pool, Way way) {
    static int number = 0;
    const std::string name = "c" + std::to_string(++number);
    controller.SetWay(pool, way);
    server_.Add(kClaims, kSpace, Claim(name, pool));
    EXPECT_TRUE(controller.AwaitClaim(name));
    const auto claim = server_.Find(kClaims, kSpace, name);
    const json::value* all = At(*claim, "status.conditions");
    return all == nullptr ? "" : TextAt(all->as_array()[0].as_object(), "reason");
  };
  EXPECT_EQ(reason("pool", Way::kHintRetracted), "DependenciesReady");
  EXPECT_EQ(reason("pool", Way::kMemberNotReady), "DependenciesNotReady");
  EXPECT_EQ(reason("pool", Way::kNatural), "DependenciesReady");  // cold by now
  EXPECT_EQ(reason("pool", Way::kNoStatus), "");
  EXPECT_EQ(reason("pool", Way::kUnschedulable), "DependenciesNotReady");
  EXPECT_EQ(reason("pool", Way::kNeverReady), "DependenciesNotReady");
  EXPECT_EQ(reason("none", Way::kNatural), "WarmPoolNotFound");
  EXPECT_EQ(reason("pool", Way::kTemplateNotFound), "TemplateNotFound");
  EXPECT_EQ(reason("pool", Way::kInvalidMetadata), "InvalidMetadata");
}

}  // namespace
}  // namespace sandbroker::testing

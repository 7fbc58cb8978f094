#include "server/app/settings.h"

#include <gtest/gtest.h>

namespace sandbroker::app {
namespace {

TEST(ToLocalSettings, TemplatesAndEnabledPools_AreTakenOver) {
  config::Config config;
  config.templates["big"].workspace = {1u << 30};
  config.templates["big"].env["A"] = "b";
  config.templates["big"].memory = {1u << 29};
  config.templates["big"].pids = 100;
  config.templates["big"].open_files = 300;
  config.templates["big"].limits = "advisory";
  config.pools["gpu"] = {.template_name = "big", .warm = 0, .limit = 3};
  config.pools["default"].enabled = false;
  const local::LocalSettings settings = ToLocalSettings(config);
  ASSERT_EQ(settings.pools.size(), 1u);
  EXPECT_EQ(settings.pools[0].name, "gpu");
  EXPECT_EQ(settings.pools[0].template_name, "big");
  EXPECT_EQ(settings.pools[0].limit, 3u);
  EXPECT_EQ(settings.templates.at("big").workspace_bytes, 1u << 30);
  EXPECT_EQ(settings.templates.at("big").env.front().second, "b");
  EXPECT_EQ(settings.templates.at("big").memory_bytes, 1u << 29);
  EXPECT_EQ(settings.templates.at("big").pids, 100u);
  EXPECT_EQ(settings.templates.at("big").open_files, 300u);
  EXPECT_TRUE(settings.templates.at("big").advisory_limits);
  EXPECT_EQ(settings.templates.count("default"), 1u);
}

TEST(ToLocalSettings, Defaults_AreTheBackendsOwn) {
  const local::LocalSettings made = ToLocalSettings(config::Config());
  const local::LocalSettings own;
  const local::TemplateSettings own_template;
  const local::PoolSettings own_pool;
  EXPECT_EQ(made.bwrap_path, own.bwrap_path);
  EXPECT_EQ(made.uid_first, own.uid_first);
  EXPECT_EQ(made.uid_count, own.uid_count);
  EXPECT_EQ(made.start_bound, own.start_bound);
  EXPECT_EQ(made.relink_bound, own.relink_bound);
  EXPECT_EQ(made.warm_backstop, own.warm_backstop);
  EXPECT_EQ(made.keep_sandboxes, own.keep_sandboxes);
  EXPECT_EQ(made.templates.at("default").workspace_bytes, own_template.workspace_bytes);
  EXPECT_EQ(made.templates.at("default").tmp_bytes, own_template.tmp_bytes);
  EXPECT_EQ(made.templates.at("default").memory_bytes, own_template.memory_bytes);
  EXPECT_EQ(made.templates.at("default").pids, own_template.pids);
  EXPECT_EQ(made.templates.at("default").open_files, own_template.open_files);
  EXPECT_FALSE(made.templates.at("default").advisory_limits);
  EXPECT_EQ(made.pools.at(0).warm, own_pool.warm);
  EXPECT_EQ(made.pools.at(0).limit, own_pool.limit);
  EXPECT_EQ(made.pools.at(0).max_waiting, own_pool.max_waiting);
  EXPECT_EQ(made.pools.at(0).max_starting, own_pool.max_starting);
}

TEST(AgentPath, Unset_IsBesideThisProgram) {
  config::ServerConfig server;
  EXPECT_TRUE(AgentPath(server).ends_with("/sandbroker-agent"));
  server.agent = "/opt/agent";
  EXPECT_EQ(AgentPath(server), "/opt/agent");
}

}  // namespace
}  // namespace sandbroker::app

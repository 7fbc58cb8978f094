#include "lib/config/yaml.h"

#include <gtest/gtest.h>

#include "lib/base/status.h"

namespace sandbroker::config {
namespace {

std::string Error(std::string_view text) {
  Config config;
  const absl::Status status = ReadYaml(text, "f.yaml", &config);
  return status.ok() ? "OK" : std::string(MessageOf(status));
}

constexpr std::string_view kWhole = R"(
server:
  listen: "[::1]:1"
  heartbeat_interval: 250ms
  output_window: 2MiB
  blocking_jobs: 77
log: {format: json}
drain:
  delay: 5s
templates:
  default:
    env:
      LANG: C.UTF-8
  big:
    workspace: 1GiB
pools:
  gpu:
    template: big
    warm: 0
    enabled: false
)";

TEST(ReadYaml, EverySection_IsTaken) {
  Config config;
  ASSERT_TRUE(ReadYaml(kWhole, "f.yaml", &config).ok());
  EXPECT_EQ(config.server.listen, "[::1]:1");
  EXPECT_EQ(config.server.heartbeat_interval, Duration(std::chrono::milliseconds(250)));
  EXPECT_EQ(config.server.output_window.bytes, 2u << 20);
  EXPECT_EQ(config.server.blocking_jobs, 77u);
  EXPECT_EQ(config.log.format, "json");
  EXPECT_EQ(config.drain.delay, Duration(std::chrono::seconds(5)));
  EXPECT_EQ(config.templates.at("default").env.at("LANG"), "C.UTF-8");
  EXPECT_EQ(config.templates.at("big").workspace.bytes, 1ull << 30);
  EXPECT_EQ(config.pools.at("gpu").template_name, "big");
  EXPECT_FALSE(config.pools.at("gpu").enabled);
}

TEST(ReadYaml, DefaultTemplateAndPool_StayBesideOthers) {
  Config config;
  ASSERT_TRUE(ReadYaml(kWhole, "f.yaml", &config).ok());
  EXPECT_TRUE(config.pools.at("default").enabled);
  EXPECT_EQ(config.pools.at("default").template_name, "default");
}

TEST(ReadYaml, NothingToRead_ChangesNothing) {
  const std::string before = WriteYaml(Config());
  for (const char* text : {"", "# only a comment\n", "---\n", "server:\n", "~"}) {
    Config config;
    EXPECT_TRUE(ReadYaml(text, "f.yaml", &config).ok()) << text;
    EXPECT_EQ(WriteYaml(config), before) << text;
  }
}

TEST(ReadYaml, UnknownKey_IsRefusedWithItsLine) {
  EXPECT_EQ(Error("server:\n  listne: x\n").substr(0, 37), "f.yaml:2: unknown key server.listne (");
  EXPECT_EQ(Error("\nsevrer:\n").substr(0, 30), "f.yaml:2: unknown key sevrer (");
  EXPECT_EQ(Error("pools:\n  a:\n    wram: 1\n"),
            "f.yaml:3: unknown key pools.a.wram (known here: enabled, template, warm_pool, warm, "
            "limit, max_waiting, max_starting)");
  EXPECT_EQ(Error("templates:\n  a:\n    root: /\n"),
            "f.yaml:3: unknown key templates.a.root (known here: rootfs, workspace, tmp, "
            "memory, pids, limits, open_files, env)");
  EXPECT_EQ(Error("<<: {server: {}}\n").substr(0, 26), "f.yaml:1: unknown key << (");
}

TEST(ReadYaml, KeyGivenTwice_IsRefusedWithItsLine) {
  EXPECT_EQ(Error("log:\n  level: info\n  level: debug\n"), "f.yaml:3: log.level: given twice");
  EXPECT_EQ(Error("pools: {a: {}, a: {}}"), "f.yaml:1: pools.a: given twice");
}

TEST(ReadYaml, BadValue_IsRefusedWithLineAndKey) {
  EXPECT_EQ(Error("server:\n  blocking_jobs: many\n"),
            "f.yaml:2: server.blocking_jobs: 'many' is not a whole number from 0 to 4294967295");
  EXPECT_EQ(Error("drain: {grace: 10}"),
            "f.yaml:1: drain.grace: '10' is not a duration such as 250ms, 10s or 1m30s");
  EXPECT_EQ(Error("pools: {a: {enabled: yes}}"),
            "f.yaml:1: pools.a.enabled: 'yes' is neither true nor false");
}

TEST(ReadYaml, WrongKindOfNode_IsRefusedWithLineAndKey) {
  EXPECT_EQ(Error("- a\n"), "f.yaml:1: the file: not a map");
  EXPECT_EQ(Error("server: [1]\n"), "f.yaml:1: server: not a map");
  EXPECT_EQ(Error("server:\n  listen: {}\n"), "f.yaml:2: server.listen: needs a single value");
  EXPECT_EQ(Error("server:\n  listen:\n"), "f.yaml:2: server.listen: needs a single value");
  EXPECT_EQ(Error("pools:\n  a: 3\n"), "f.yaml:2: pools.a: not a map");
  EXPECT_EQ(Error("templates: {a: {env: [A]}}"), "f.yaml:1: templates.a.env: not a map");
  EXPECT_EQ(Error("? [a]\n: b\n"), "f.yaml:1: the file: a key is no text");
  EXPECT_EQ(Error("server:\n  agent: \"a\\0b\"\n"), "f.yaml:2: server.agent: holds a NUL byte");
}

TEST(ReadYaml, BrokenYaml_IsRefusedWithItsLine) {
  EXPECT_EQ(Error("server:\n  listen: 'x").substr(0, 24), "f.yaml:2: not valid YAML");
  EXPECT_EQ(Error("a: *nowhere\n").substr(0, 24), "f.yaml:1: not valid YAML");
  EXPECT_EQ(Error("log: {}\n---\nlog: {}\n"), "f.yaml:2: text after the end of the YAML document");
  EXPECT_EQ(Error("log: {}\n}\n").substr(0, 24), "f.yaml:2: not valid YAML");
}

TEST(ReadYaml, HugeOrDeepInput_IsRefused) {
  EXPECT_EQ(Error(std::string(kMaxFileBytes + 1, ' ')), "f.yaml: larger than 1 MiB");
  EXPECT_NE(Error(std::string(100000, '[')), "OK");
  EXPECT_NE(Error(std::string(100000, '{')), "OK");
}

TEST(WriteYaml, ReadBack_GivesTheSameConfiguration) {
  Config config;
  ASSERT_TRUE(ReadYaml(kWhole, "f.yaml", &config).ok());
  config.templates["default"].env["ODD"] = "a: \"b\"\n\ttab # no comment";
  config.server.listen = "";
  const std::string text = WriteYaml(config);
  Config again;
  ASSERT_TRUE(ReadYaml(text, "f.yaml", &again).ok()) << text;
  EXPECT_EQ(WriteYaml(again), text);
  EXPECT_EQ(again.templates["default"].env["ODD"], config.templates["default"].env["ODD"]);
  EXPECT_EQ(again.server.listen, "");
}

}  // namespace
}  // namespace sandbroker::config

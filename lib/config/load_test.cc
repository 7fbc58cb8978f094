#include "lib/config/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "lib/base/status.h"

namespace sandbroker::config {
namespace {

// A file that lives as long as the test.
class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    std::string path = testing::TempDir() + "config_XXXXXX";
    close(mkstemp(path.data()));
    std::ofstream(path) << text;
    path_ = path;
  }
  ~TempFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Surroundings With(std::vector<std::string> args,
                  std::map<std::string, std::string> environment = {}) {
  Surroundings around;
  around.args = std::move(args);
  around.environment = std::move(environment);
  around.working_dir = "/somewhere";
  around.is_root = true;
  return around;
}

std::string ErrorOf(const Surroundings& around) {
  const auto loaded = Load(around);
  return loaded.ok() ? "OK" : std::string(MessageOf(loaded.status()));
}

TEST(Load, NothingGiven_ServesTheDefaults) {
  const auto loaded = Load(With({}));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->action, Invocation::Action::kServe);
  EXPECT_EQ(loaded->config.server.listen, "127.0.0.1:7443");
  EXPECT_EQ(loaded->config.server.admin, "");
  EXPECT_EQ(loaded->config.server.state_dir, "/var/lib/sandbroker");
  EXPECT_EQ(loaded->config.pools.size(), 1u);
}

TEST(Load, SourcesOfOneKey_WinInTheDocumentedOrder) {
  const TempFile file(
      "server: {listen: '127.0.0.1:2', admin: '127.0.0.1:3'}\ndrain: {delay: 2s}\n");
  const std::map<std::string, std::string> environment = {{"SANDBROKER_CONFIG", file.path()},
                                                          {"SANDBROKER_LISTEN", "127.0.0.1:4"},
                                                          {"SANDBROKER_ADMIN", "127.0.0.1:5"}};
  const auto loaded = Load(With({"--listen", "127.0.0.1:6"}, environment));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.server.listen, "127.0.0.1:6") << "flag > environment";
  EXPECT_EQ(loaded->config.server.admin, "127.0.0.1:5") << "environment > file";
  EXPECT_EQ(loaded->config.drain.delay, Duration(std::chrono::seconds(2))) << "file > default";
  EXPECT_EQ(loaded->config.drain.grace, DrainConfig().grace) << "default";
}

TEST(Load, ConfigFlag_WinsOverTheVariable) {
  const TempFile file("log: {level: debug}\n");
  const auto loaded =
      Load(With({"--config=" + file.path()}, {{"SANDBROKER_CONFIG", "/does/not/exist"}}));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.log.level, "debug");
}

TEST(Load, EveryError_NamesItsSource) {
  const TempFile file("a: 1\n");
  EXPECT_EQ(ErrorOf(With({"--config", file.path()})).rfind(file.path() + ":1: unknown key a", 0),
            0u);
  EXPECT_EQ(ErrorOf(With({"--config", "/does/not/exist"})),
            "/does/not/exist: No such file or directory");
  EXPECT_EQ(ErrorOf(With({"--config", "/tmp"})), "/tmp: Is a directory");
  EXPECT_EQ(ErrorOf(With({}, {{"SANDBROKER_DRAIN_GRACE", "x"}})),
            "SANDBROKER_DRAIN_GRACE: 'x' is not a duration such as 250ms, 10s or 1m30s");
  EXPECT_EQ(ErrorOf(With({"--drain-grace", "x"})),
            "--drain-grace: 'x' is not a duration such as 250ms, 10s or 1m30s");
  EXPECT_EQ(ErrorOf(With({"--drain-grace", "2h"})), "drain.grace: 2h is not from 0s to 1h");
}

TEST(Load, UnknownFlagOrStrayWord_IsRefused) {
  EXPECT_NE(ErrorOf(With({"--lisen", "x"})).find("--lisen"), std::string::npos);
  EXPECT_NE(ErrorOf(With({"serve"})).find("serve"), std::string::npos);
  EXPECT_NE(ErrorOf(With({"--listen"})).find("--listen"), std::string::npos);
  EXPECT_NE(ErrorOf(With({"--listen", "127.0.0.1:1", "--listen", "127.0.0.1:2"})), "OK");
}

TEST(Load, AddressSwitchedOff_IsEmpty) {
  for (const char* off : {"off", ""}) {
    const auto loaded = Load(With({"--listen", off, "--unix", "/run/s"}));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->config.server.listen, "");
  }
}

TEST(Load, RelativePaths_BecomeAbsolute) {
  const auto loaded = Load(With({"--state-dir", "d", "--port-file=./p", "--unix", "../u"}));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.server.state_dir, "/somewhere/d");
  EXPECT_EQ(loaded->config.server.port_file, "/somewhere/p");
  EXPECT_EQ(loaded->config.server.unix_socket, "/u");
}

TEST(Load, CheckAndPrintAndVersionAndHelp_StartNothing) {
  EXPECT_EQ(Load(With({"--check-config"}))->action, Invocation::Action::kCheckConfig);
  EXPECT_EQ(Load(With({"--print-agent-key"}))->action, Invocation::Action::kPrintAgentKey);
  EXPECT_EQ(Load(With({"--doctor"}))->action, Invocation::Action::kDoctor);
  EXPECT_TRUE(Load(With({"--doctor", "--json"}))->json);
  EXPECT_NE(ErrorOf(With({"--json"})).find("--doctor"), std::string::npos);
  const auto printed = Load(With({"--print-config", "--log-level", "debug"}));
  EXPECT_EQ(printed->action, Invocation::Action::kPrint);
  EXPECT_NE(printed->text.find("level: \"debug\""), std::string::npos);
  EXPECT_EQ(Load(With({"--version"}))->text.rfind("sandbrokerd ", 0), 0u);
  const auto help = Load(With({"--help"}));
  EXPECT_NE(help->text.find("--heartbeat-interval"), std::string::npos);
  EXPECT_EQ(ErrorOf(With({"--check-config", "--listen", "0.0.0.0:1"})).rfind("server.listen: ", 0),
            0u);
}

TEST(DefaultStateDir, FollowsTheUserAndXdg) {
  Surroundings around;
  EXPECT_EQ(DefaultStateDir(around), "");
  around.environment["HOME"] = "/home/u";
  EXPECT_EQ(DefaultStateDir(around), "/home/u/.local/state/sandbroker");
  around.environment["XDG_STATE_HOME"] = "/x";
  EXPECT_EQ(DefaultStateDir(around), "/x/sandbroker");
  around.is_root = true;
  EXPECT_EQ(DefaultStateDir(around), "/var/lib/sandbroker");
}

}  // namespace
}  // namespace sandbroker::config

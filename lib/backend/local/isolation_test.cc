#include "lib/backend/local/isolation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sandbroker::local {
namespace {

std::vector<std::string> Argv(const TemplateSettings& tmpl) {
  return BubblewrapArgv("bwrap", tmpl, {"/proc/self/fd/7", "--flag"});
}

bool Has(const std::vector<std::string>& argv, const std::vector<std::string>& part) {
  return std::search(argv.begin(), argv.end(), part.begin(), part.end()) != argv.end();
}

TEST(Isolation, Argv_TakesEveryNamespaceAndCapability) {
  const auto argv = Argv({});
  for (const char* flag : {"--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-pid",
                           "--unshare-net", "--unshare-uts", "--clearenv", "--new-session"}) {
    EXPECT_TRUE(Has(argv, {flag})) << flag;
  }
  EXPECT_TRUE(Has(argv, {"--cap-drop", "ALL"}));
  EXPECT_FALSE(Has(argv, {"--share-net"}));
  EXPECT_FALSE(Has(argv, {"--bind"}));  // nothing of the host is writable
}

TEST(Isolation, Argv_SizesEveryTmpfs) {
  const auto argv = Argv({});
  for (size_t i = 0; i < argv.size(); ++i) {
    if (argv[i] == "--tmpfs") {
      EXPECT_EQ(argv[i - 2], "--size") << argv[i + 1];
    }
  }
  TemplateSettings small;
  small.workspace_bytes = 4096;
  EXPECT_TRUE(Has(Argv(small), {"--size", "4096", "--tmpfs", "/workspace"}));
}

TEST(Isolation, Argv_RootfsReplacesTheHostsUsr) {
  TemplateSettings tmpl;
  tmpl.rootfs = "/srv/image";
  const auto argv = Argv(tmpl);
  EXPECT_TRUE(Has(argv, {"--ro-bind", "/srv/image", "/"}));
  EXPECT_FALSE(Has(argv, {"--ro-bind", "/usr", "/usr"}));
}

TEST(Isolation, Argv_EndsWithTheCommandAndTemplateEnvComesLast) {
  TemplateSettings tmpl;
  tmpl.env = {{"LANG", "de_DE.UTF-8"}};
  const auto argv = Argv(tmpl);
  EXPECT_TRUE(Has(argv, {"--setenv", "LANG", "de_DE.UTF-8", "--", "/proc/self/fd/7", "--flag"}));
}

TEST(Isolation, ExplainFailure_NamesTheRemedy) {
  EXPECT_NE(ExplainFailure("bwrap: No permissions to create new namespace, likely because …")
                .find("unprivileged_userns_clone"),
            std::string::npos);
  EXPECT_NE(ExplainFailure("bwrap: Unknown option --disable-userns").find("0.8"),
            std::string::npos);
}

}  // namespace
}  // namespace sandbroker::local

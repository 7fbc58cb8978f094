#include "lib/backend/local/isolation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sandbroker::local {
namespace {

std::vector<std::string> Argv(const TemplateSettings& tmpl) {
  return BubblewrapArgv("bwrap", tmpl, {{"/proc/keys", false}, {"/proc/acpi", true}},
                        {"/proc/self/fd/7", "--flag"});
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

TEST(Isolation, Argv_FiltersSystemCallsAndHidesPartsOfProc) {
  const auto argv = Argv({});
  EXPECT_TRUE(Has(argv, {"--seccomp", std::to_string(kSeccompFd)}));
  EXPECT_TRUE(Has(argv, {"--ro-bind", "/dev/null", "/proc/keys"}));
  EXPECT_TRUE(Has(argv, {"--tmpfs", "/proc/acpi", "--remount-ro", "/proc/acpi"}));
  // What covers it comes after what is covered.
  const auto proc = std::find(argv.begin(), argv.end(), "--proc");
  EXPECT_LT(proc, std::find(argv.begin(), argv.end(), "/proc/keys"));
}

TEST(Isolation, DescriptorNumbers_DoNotOverlap) {
  std::vector<int> all = {0,           1,       2,          kListenFd,      kSecretFd,
                          kAgentFd,    kInfoFd, kSeccompFd, kCgroupProcsFd, 6,
                          kOomEventsFd};
  for (size_t i = 0; i < MinimalEtc().size(); ++i) all.push_back(kFirstEtcFd + static_cast<int>(i));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

std::string Explained(const std::string& text, bool allowed = true, bool apparmor = false) {
  HostFacts host;
  host.userns_allowed = allowed;
  host.apparmor_restricts_userns = apparmor;
  return ExplainFailure(text, host);
}

TEST(Isolation, ExplainFailure_NamesTheRemedy) {
  const std::string none = "bwrap: No permissions to create new namespace, likely because …";
  EXPECT_NE(Explained(none).find("a seccomp profile that allows clone"), std::string::npos);
  EXPECT_NE(Explained(none, false).find("switched off"), std::string::npos);
  EXPECT_NE(Explained("bwrap: Unknown option --disable-userns").find("0.8"), std::string::npos);
  EXPECT_NE(Explained("bwrap: Can't mkdir /workspace: Read-only file system").find("/workspace"),
            std::string::npos);
}

TEST(Isolation, ExplainFailure_KnowsUbuntusRestriction) {
  const std::string ubuntu = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted";
  EXPECT_NE(Explained(ubuntu, true, true).find("userns,"), std::string::npos);
  EXPECT_EQ(Explained(ubuntu).find("userns,"), std::string::npos);
}

}  // namespace
}  // namespace sandbroker::local

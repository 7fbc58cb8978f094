#include "lib/backend/local/protections.h"

#include <gtest/gtest.h>

#include "lib/base/status.h"

namespace sandbroker::local {
namespace {

using State = Protection::State;

HostFacts GoodHost() {
  HostFacts host;
  host.is_root = true;
  host.seccomp = true;
  host.kernel_pointers_hidden = true;
  host.kernel = "6.1.0";
  return host;
}

LocalSettings GoodSettings() {
  LocalSettings settings;
  settings.templates["default"].memory_bytes = 1 << 30;
  settings.cgroups.version = CgroupVersion::kV2;
  settings.cgroups.parent = "/sys/fs/cgroup/x";
  return settings;
}

Protection Find(const std::string& name, const LocalSettings& settings, const HostFacts& host,
                const absl::Status& probe = absl::OkStatus()) {
  for (const Protection& one : DescribeProtections(settings, host, probe)) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(Protections, GoodHost_HasAllAndNothingToRemedy) {
  for (const Protection& one : DescribeProtections(GoodSettings(), GoodHost(), absl::OkStatus())) {
    EXPECT_EQ(one.state, State::kActive) << one.name << ": " << one.detail;
    EXPECT_EQ(one.remedy, "") << one.name;
    EXPECT_NE(one.detail, "") << one.name;
  }
}

TEST(Protections, WhateverIsNotActive_HasARemedy) {
  LocalSettings settings;
  settings.templates["default"];
  settings.cgroups.why = "no";
  settings.cgroups.remedy = "yes";
  HostFacts host;
  host.apparmor_restricts_userns = true;
  host.kernel = "5.4";
  int open = 0;
  for (const Protection& one :
       DescribeProtections(settings, host, MakeError(Reason::kIsolationUnavailable, "why"))) {
    if (one.state == State::kActive) continue;
    ++open;
    EXPECT_NE(one.remedy, "") << one.name;
  }
  EXPECT_EQ(open, 7);  // all but disk
}

TEST(Protections, FailedProbe_SaysItsOwnRemedy) {
  const Protection isolation = Find("isolation", GoodSettings(), GoodHost(),
                                    MakeError(Reason::kIsolationUnavailable, "enable them"));
  EXPECT_EQ(isolation.state, State::kMissing);
  EXPECT_EQ(isolation.remedy, "enable them");
}

TEST(Protections, OrdinaryUser_SharesItsUid) {
  HostFacts host = GoodHost();
  host.is_root = false;
  host.uid = 1234;
  const Protection uid = Find("host_uid", GoodSettings(), host);
  EXPECT_EQ(uid.state, State::kPartly);
  EXPECT_NE(uid.detail.find("1234"), std::string::npos);
}

TEST(Protections, Memory_IsPartlyUntilEveryTemplateSetsIt) {
  LocalSettings settings = GoodSettings();
  settings.templates["other"];
  EXPECT_NE(Find("memory", settings, GoodHost()).detail.find("'other'"), std::string::npos);
  settings.templates.clear();
  settings.templates["default"];
  EXPECT_EQ(Find("memory", settings, GoodHost()).state, State::kPartly);
  settings.cgroups.why = "no";
  EXPECT_EQ(Find("memory", settings, GoodHost()).state, State::kMissing);
}

TEST(Protections, AppArmor_IsExplainedOnlyWhereItStopsUs) {
  HostFacts host = GoodHost();
  host.apparmor_restricts_userns = true;
  EXPECT_EQ(Find("apparmor", GoodSettings(), host).state, State::kActive);
  const absl::Status failed = MakeError(Reason::kIsolationUnavailable, "x");
  EXPECT_EQ(Find("apparmor", GoodSettings(), host, failed).state, State::kMissing);
}

}  // namespace
}  // namespace sandbroker::local

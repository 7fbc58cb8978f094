#include "lib/backend/local/limits.h"

#include <gtest/gtest.h>

namespace sandbroker::local {
namespace {

HostFacts Host(bool is_root, const std::string& kernel) {
  HostFacts host;
  host.is_root = is_root;
  host.kernel = kernel;
  return host;
}

LocalSettings With(uint64_t memory, uint32_t pids, bool advisory, bool cgroups) {
  LocalSettings settings;
  TemplateSettings& tmpl = settings.templates["big"];
  tmpl.memory_bytes = memory;
  tmpl.pids = pids;
  tmpl.advisory_limits = advisory;
  settings.cgroups.version = CgroupVersion::kV2;
  if (!cgroups) {
    settings.cgroups.why = "/sys/fs/cgroup: Permission denied";
    settings.cgroups.remedy = "delegate one";
  }
  return settings;
}

TEST(Limits, MemoryWithoutCgroup_IsRefusedWithReasonAndRemedy) {
  const auto findings = CheckLimits(With(1 << 20, 0, false, false), Host(true, "6.1"));
  ASSERT_EQ(findings.refused.size(), 1u);
  EXPECT_EQ(findings.refused[0],
            "templates.big.memory: 1048576 bytes can't be enforced here: /sys/fs/cgroup: "
            "Permission denied. To enforce it: delegate one");
  EXPECT_TRUE(findings.warned.empty());
}

TEST(Limits, AdvisoryLimit_IsOnlyWarnedOf) {
  const auto findings = CheckLimits(With(1 << 20, 10, true, false), Host(false, "5.4"));
  EXPECT_TRUE(findings.refused.empty());
  EXPECT_EQ(findings.warned.size(), 2u);
}

TEST(Limits, WhatCanBeKeptOrIsNotSet_IsNoFinding) {
  EXPECT_TRUE(CheckLimits(With(1 << 20, 10, false, true), Host(true, "5.4")).refused.empty());
  EXPECT_TRUE(CheckLimits(With(0, 0, false, false), Host(false, "4.19")).refused.empty());
}

TEST(Limits, Processes_CountPerSandboxByUidOrByKernel) {
  EXPECT_TRUE(ProcessesCountPerSandbox(Host(true, "4.19.0")));
  EXPECT_FALSE(ProcessesCountPerSandbox(Host(false, "5.13.9-x")));
  EXPECT_TRUE(ProcessesCountPerSandbox(Host(false, "5.14.0")));
  EXPECT_TRUE(ProcessesCountPerSandbox(Host(false, "6.1.0-17-amd64")));
  EXPECT_FALSE(ProcessesCountPerSandbox(Host(false, "")));
}

}  // namespace
}  // namespace sandbroker::local

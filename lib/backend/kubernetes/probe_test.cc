#include "lib/backend/kubernetes/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/status.h"

namespace sandbroker::kubernetes {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string StatusFile() {
  return "Name:\tsandbroker-agen\nUmask:\t0022\nState:\tR (running)\nUid:\t1000\t1000\t1000\t1000\n"
         "Gid:\t1000\t1000\t1000\t1000\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
         "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n"
         "NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
}

std::string Why(const std::string& from, const std::string& to) {
  std::string text = StatusFile();
  text.replace(text.find(from), from.size(), to);
  const auto facts = JudgeProbe(text);
  if (facts.ok()) return "OK";
  EXPECT_EQ(ReasonOf(facts.status()), Reason::kPrivilegedSandbox);
  return std::string(MessageOf(facts.status()));
}

TEST(Probe, UnprivilegedSandbox_Passes) {
  const auto facts = JudgeProbe(StatusFile());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->uids, "1000\\t1000\\t1000\\t1000");
  EXPECT_EQ(facts->seccomp, "2");
  EXPECT_EQ(facts->ambient, "0000000000000000");
}

TEST(Probe, EveryMaskCounts_AndIsNamed) {
  for (const std::string set : {"CapInh", "CapPrm", "CapEff", "CapBnd"}) {
    const std::string zero = set + ":\t0000000000000000";
    EXPECT_THAT(Why(zero, set + ":\t00000000a80425fb"), HasSubstr(set + "=00000000a80425fb"));
  }
  EXPECT_THAT(Why("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
              AllOf(HasSubstr("NoNewPrivs=0"), Not(HasSubstr("Cap"))));
}

TEST(Probe, AmbientAndSeccomp_AreReportedOnly) {
  EXPECT_EQ(Why("CapAmb:\t0000000000000000", "CapAmb:\t0000000000000001"), "OK");
  EXPECT_EQ(Why("Seccomp:\t2", "Seccomp:\t0"), "OK");
}

TEST(Probe, WhatIsMissingOrGarbledIsNotSafe) {
  EXPECT_FALSE(JudgeProbe("").ok());
  EXPECT_FALSE(JudgeProbe("CapEff").ok());
  EXPECT_THAT(Why("CapBnd:\t0000000000000000\n", ""), HasSubstr("CapBnd="));
  EXPECT_THAT(Why("CapBnd:\t0000000000000000", "CapBnd:\t"), HasSubstr("CapBnd="));
  EXPECT_THAT(Why("CapBnd:\t0000000000000000", "CapBnd:\t0x0"), HasSubstr("CapBnd=0x0"));
  // A line of its own making can't hide the kernel's.
  EXPECT_THAT(Why("Name:", "CapEff:\t0\nName:"), HasSubstr("CapEff=said twice"));
}

}  // namespace
}  // namespace sandbroker::kubernetes

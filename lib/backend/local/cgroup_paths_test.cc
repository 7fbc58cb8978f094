#include "lib/backend/local/cgroup_paths.h"

#include <gtest/gtest.h>

namespace sandbroker::local {
namespace {

constexpr char kHybrid[] =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";
constexpr char kHybridSelf[] = "4:memory:/service\n2:cpu,cpuacct:/\n0::/other\n";

constexpr char kUnified[] =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kUnifiedSelf[] = "0::/system.slice/sandbrokerd.service\n";

CgroupPlace Find(std::string_view controller, std::string_view mounts, std::string_view self,
                 std::string_view parent = "") {
  return FindCgroup(controller, mounts, self, parent);
}

TEST(CgroupPaths, Unified_IsTheProcesssOwnCgroup) {
  const CgroupPlace place = Find("memory", kUnified, kUnifiedSelf);
  EXPECT_EQ(place.version, CgroupVersion::kV2);
  EXPECT_EQ(place.folder, "/sys/fs/cgroup/system.slice/sandbrokerd.service");
}

TEST(CgroupPaths, Hybrid_EachControllerIsWhereItIs) {
  const CgroupPlace memory = Find("memory", kHybrid, kHybridSelf);
  EXPECT_EQ(memory.version, CgroupVersion::kV1);
  EXPECT_EQ(memory.folder, "/sys/fs/cgroup/memory/service");
  const CgroupPlace cpu = Find("cpuacct", kHybrid, kHybridSelf);
  EXPECT_EQ(cpu.folder, "/sys/fs/cgroup/cpu,cpuacct");
  // No version 1 hierarchy has it: if anything, version 2 does.
  const CgroupPlace pids = Find("pids", kHybrid, kHybridSelf);
  EXPECT_EQ(pids.version, CgroupVersion::kV2);
  EXPECT_EQ(pids.folder, "/sys/fs/cgroup/unified/other");
}

TEST(CgroupPaths, GivenParent_ReplacesTheOwnCgroup) {
  EXPECT_EQ(Find("memory", kHybrid, kHybridSelf, "/boxes").folder, "/sys/fs/cgroup/memory/boxes");
  EXPECT_EQ(Find("memory", kUnified, kUnifiedSelf, "/").folder, "/sys/fs/cgroup");
}

TEST(CgroupPaths, InsideAContainer_TheMountedPartIsTheRoot) {
  const char mounts[] = "35 31 0:32 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
  EXPECT_EQ(Find("memory", mounts, "4:memory:/docker/x/y\n").folder, "/sys/fs/cgroup/memory/y");
  EXPECT_EQ(Find("memory", mounts, "4:memory:/docker/x\n").folder, "/sys/fs/cgroup/memory");
  EXPECT_EQ(Find("memory", kUnified, "0::/../outside\n").folder, "/sys/fs/cgroup");
}

TEST(CgroupPaths, NothingMountedOrUnreadable_IsNone) {
  EXPECT_EQ(Find("memory", "", "").version, CgroupVersion::kNone);
  EXPECT_EQ(Find("memory", "no dash\n1 2 - cgroup2\n - \n", ":\n::").version, CgroupVersion::kNone);
}

TEST(CgroupPaths, GroupName_TellsBrokersApart) {
  EXPECT_EQ(CgroupGroupName("/a"), CgroupGroupName("/a"));
  EXPECT_NE(CgroupGroupName("/a"), CgroupGroupName("/b"));
}

TEST(CgroupPaths, Writes_LimitMemoryWithoutSwap) {
  const auto v1 = MemoryWrites(CgroupVersion::kV1, 1 << 20);
  ASSERT_EQ(v1.size(), 2u);
  // The order matters: memory with swap can't be below memory.
  EXPECT_EQ(v1[0].file, "memory.limit_in_bytes");
  EXPECT_EQ(v1[1].value, "1048576");
  EXPECT_TRUE(v1[1].optional);
  const auto v2 = MemoryWrites(CgroupVersion::kV2, 4096);
  EXPECT_EQ(v2[0].file, "memory.max");
  EXPECT_EQ(v2[1].value, "0");
  EXPECT_EQ(PidsWrite(7).value, "7");
}

}  // namespace
}  // namespace sandbroker::local

#include "ridge/base/cores.h"

#include <gtest/gtest.h>

#include "ridge/base/testing/fake_root.h"

namespace ridge {
namespace {

TEST(Cores, affinity_is_used_without_a_cgroup) {
  const FakeRoot root;
  EXPECT_EQ(limit_cores_by_quota(root.path(), 6), 6);
  EXPECT_EQ(limit_cores_by_quota(root.path(), 0), 1);
}

TEST(Cores, a_v2_quota_is_rounded_up) {
  const FakeRoot root;
  root.write_file("/proc/self/cgroup", "0::/box");
  root.write_file("/sys/fs/cgroup/box/cpu.max", "150000 100000");
  EXPECT_EQ(limit_cores_by_quota(root.path(), 64), 2);
}

TEST(Cores, v2_max_means_no_limit) {
  const FakeRoot root;
  root.write_file("/proc/self/cgroup", "0::/box");
  root.write_file("/sys/fs/cgroup/box/cpu.max", "max 100000");
  EXPECT_EQ(limit_cores_by_quota(root.path(), 64), 64);
}

TEST(Cores, an_ancestors_quota_applies) {
  const FakeRoot root;
  root.write_file("/proc/self/cgroup", "0::/outer/box");
  root.write_file("/sys/fs/cgroup/outer/cpu.max", "300000 100000");
  root.write_file("/sys/fs/cgroup/outer/box/cpu.max", "800000 100000");
  EXPECT_EQ(limit_cores_by_quota(root.path(), 64), 3);
}

TEST(Cores, quota_at_the_mount_root_applies_in_a_container) {
  const FakeRoot root;
  root.write_file("/proc/self/cgroup", "0::/a/path/of/the/host");
  root.write_file("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(limit_cores_by_quota(root.path(), 64), 2);
}

TEST(Cores, a_v1_quota_applies_under_either_mount_name) {
  for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    const FakeRoot root;
    root.write_file("/proc/self/cgroup", "4:cpu,cpuacct:/box\n3:cpuset:/");
    root.write_file(mount + std::string("/box/cpu.cfs_quota_us"), "250000");
    root.write_file(mount + std::string("/box/cpu.cfs_period_us"), "100000");
    EXPECT_EQ(limit_cores_by_quota(root.path(), 64), 3);
  }
}

TEST(Cores, v1_minus_one_means_no_limit) {
  const FakeRoot root;
  root.write_file("/proc/self/cgroup", "4:cpu:/");
  root.write_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  root.write_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(limit_cores_by_quota(root.path(), 8), 8);
}

TEST(Cores, invalid_files_are_ignored) {
  const FakeRoot root;
  root.write_file("/proc/self/cgroup", "nonsense\n0::\n7\n::\n2:cpu\n4:cpu:x");
  root.write_file("/sys/fs/cgroup/cpu.max", "- -");
  root.write_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000");
  root.write_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "0");
  EXPECT_EQ(limit_cores_by_quota(root.path(), 8), 8);
}

TEST(Cores, this_process_may_use_a_core) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(allowed_cpus().size()));
}

TEST(MemoryLeft, is_unknown_without_a_cgroup) {
  const FakeRoot root;
  EXPECT_EQ(cgroup_memory_left(root.path()), std::nullopt);
  root.write_file("/proc/self/cgroup", "0::/box");
  root.write_file("/sys/fs/cgroup/box/memory.max", "max");
  root.write_file("/sys/fs/cgroup/box/memory.current", "7");
  EXPECT_EQ(cgroup_memory_left(root.path()), std::nullopt);
}

TEST(MemoryLeft, is_the_limit_minus_unreclaimable_memory) {
  const FakeRoot root;
  root.write_file("/proc/self/cgroup", "0::/outer/box");
  root.write_file("/sys/fs/cgroup/outer/box/memory.max", "1000");
  root.write_file("/sys/fs/cgroup/outer/box/memory.current", "700");
  EXPECT_EQ(cgroup_memory_left(root.path()), 300);
  root.write_file("/sys/fs/cgroup/outer/box/memory.stat", "anon 400\ninactive_file 250\n");
  EXPECT_EQ(cgroup_memory_left(root.path()), 550);
  root.write_file("/sys/fs/cgroup/outer/memory.max", "800");
  root.write_file("/sys/fs/cgroup/outer/memory.current", "900");
  EXPECT_EQ(cgroup_memory_left(root.path()), 0);
}

TEST(MemoryLeft, uses_v1_limits) {
  const FakeRoot root;
  root.write_file("/proc/self/cgroup", "4:memory:/box\n3:cpu:/");
  root.write_file("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4096");
  root.write_file("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "96");
  EXPECT_EQ(cgroup_memory_left(root.path()), 4000);
}

}  // namespace
}  // namespace ridge

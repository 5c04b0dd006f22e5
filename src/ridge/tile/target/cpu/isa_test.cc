#include "ridge/tile/target/cpu/isa.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ridge::tile::cpu {
namespace {

// A folder that stands for /, gone after the test.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "ridge-root-XXXXXX").string();
    path_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  void file(const std::string& at, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + at).parent_path());
    std::ofstream(path_ + at) << text << "\n";
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Isa, the_override_goes_downward_only) {
  EXPECT_EQ(choose_isa(Isa::avx512, nullptr).isa, Isa::avx512);
  EXPECT_EQ(choose_isa(Isa::avx512, "").isa, Isa::avx512);
  EXPECT_EQ(choose_isa(Isa::avx512, "avx2").isa, Isa::avx2);
  EXPECT_EQ(choose_isa(Isa::avx512, "plain").isa, Isa::plain);
  EXPECT_EQ(choose_isa(Isa::avx512, "avx512").refusal, "");
}

TEST(Isa, an_override_that_the_cpu_lacks_is_refused_with_a_sentence) {
  const IsaChoice choice = choose_isa(Isa::avx2, "avx512_bf16");
  EXPECT_EQ(choice.isa, Isa::avx2);
  EXPECT_EQ(choice.refusal,
            "expected RIDGE_ISA to name an instruction set of this CPU, found 'avx512_bf16'; the CPU has at most avx2");
}

TEST(Isa, an_override_that_is_no_instruction_set_is_refused_with_a_sentence) {
  EXPECT_EQ(choose_isa(Isa::avx2, "sse9").refusal,
            "expected RIDGE_ISA to be plain, avx2, avx512 or avx512_bf16, found 'sse9'");
}

TEST(Isa, a_test_can_go_down_and_up_again_but_not_beyond_the_cpu) {
  const Isa before = isa();
  for (const Isa each : available_isas()) {
    EXPECT_TRUE(use_isa(each));
    EXPECT_EQ(isa(), each);
  }
  if (detected_isa() != Isa::avx512_bf16) {
    EXPECT_FALSE(use_isa(Isa::avx512_bf16));
  }
  EXPECT_TRUE(use_isa(before));
}

TEST(Isa, every_cpu_has_plain) { EXPECT_EQ(available_isas().front(), Isa::plain); }

TEST(Cores, without_a_cgroup_the_affinity_counts) {
  const FakeRoot root;
  EXPECT_EQ(cores_under_quota(root.path(), 6), 6);
  EXPECT_EQ(cores_under_quota(root.path(), 0), 1);
}

TEST(Cores, a_v2_quota_is_rounded_up) {
  const FakeRoot root;
  root.file("/proc/self/cgroup", "0::/box");
  root.file("/sys/fs/cgroup/box/cpu.max", "150000 100000");
  EXPECT_EQ(cores_under_quota(root.path(), 64), 2);
}

TEST(Cores, a_v2_group_without_a_limit_says_max) {
  const FakeRoot root;
  root.file("/proc/self/cgroup", "0::/box");
  root.file("/sys/fs/cgroup/box/cpu.max", "max 100000");
  EXPECT_EQ(cores_under_quota(root.path(), 64), 64);
}

TEST(Cores, an_ancestors_quota_binds_too) {
  const FakeRoot root;
  root.file("/proc/self/cgroup", "0::/outer/box");
  root.file("/sys/fs/cgroup/outer/cpu.max", "300000 100000");
  root.file("/sys/fs/cgroup/outer/box/cpu.max", "800000 100000");
  EXPECT_EQ(cores_under_quota(root.path(), 64), 3);
}

TEST(Cores, a_container_that_sees_its_own_group_at_the_mounts_root_is_bound_by_it) {
  const FakeRoot root;
  root.file("/proc/self/cgroup", "0::/a/path/of/the/host");
  root.file("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(cores_under_quota(root.path(), 64), 2);
}

TEST(Cores, a_v1_quota_counts_under_either_mount_name) {
  for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    const FakeRoot root;
    root.file("/proc/self/cgroup", "4:cpu,cpuacct:/box\n3:cpuset:/");
    root.file(mount + std::string("/box/cpu.cfs_quota_us"), "250000");
    root.file(mount + std::string("/box/cpu.cfs_period_us"), "100000");
    EXPECT_EQ(cores_under_quota(root.path(), 64), 3);
  }
}

TEST(Cores, a_v1_group_without_a_limit_says_minus_one) {
  const FakeRoot root;
  root.file("/proc/self/cgroup", "4:cpu:/");
  root.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  root.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cores_under_quota(root.path(), 8), 8);
}

TEST(Cores, broken_files_limit_nothing) {
  const FakeRoot root;
  root.file("/proc/self/cgroup", "nonsense\n0::\n7\n::\n2:cpu\n4:cpu:x");
  root.file("/sys/fs/cgroup/cpu.max", "- -");
  root.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000");
  root.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "0");
  EXPECT_EQ(cores_under_quota(root.path(), 8), 8);
}

TEST(Cores, this_process_may_use_at_least_one) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(affinity().size()));
}

TEST(Caches, sizes_come_from_sysfs_and_what_is_missing_keeps_its_default) {
  const FakeRoot root;
  const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index";
  const auto level = [&](int index, const char* type, const char* number, const char* size) {
    root.file(cache + std::to_string(index) + "/type", type);
    root.file(cache + std::to_string(index) + "/level", number);
    root.file(cache + std::to_string(index) + "/size", size);
  };
  EXPECT_EQ(caches_under(root.path()), Caches{});
  level(0, "Data", "1", "48K");
  level(1, "Instruction", "1", "64K");
  level(2, "Unified", "2", "2M");
  EXPECT_EQ(caches_under(root.path()), (Caches{48 << 10, 2 << 20, Caches{}.l3}));
  level(2, "Unified", "2", "none");
  EXPECT_EQ(caches_under(root.path()).l2, Caches{}.l2);
}

}  // namespace
}  // namespace ridge::tile::cpu

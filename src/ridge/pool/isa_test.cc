#include "ridge/pool/isa.h"

#include <gtest/gtest.h>

#include "ridge/base/testing/fake_root.h"

namespace ridge::pool {
namespace {

TEST(Isa, the_override_selects_the_same_or_a_lower_set) {
  EXPECT_EQ(choose_isa(Isa::avx512, nullptr).isa, Isa::avx512);
  EXPECT_EQ(choose_isa(Isa::avx512, "").isa, Isa::avx512);
  EXPECT_EQ(choose_isa(Isa::avx512, "avx2").isa, Isa::avx2);
  EXPECT_EQ(choose_isa(Isa::avx512, "plain").isa, Isa::plain);
  EXPECT_FALSE(choose_isa(Isa::avx512, "avx512").error);
}

TEST(Isa, an_override_that_the_cpu_lacks_is_an_error) {
  const IsaChoice choice = choose_isa(Isa::avx2, "avx512_bf16");
  EXPECT_EQ(choice.isa, Isa::avx2);
  EXPECT_EQ(choice.error.text(),
            "expected RIDGE_ISA to name an instruction set of this CPU, found 'avx512_bf16'; the CPU has at most avx2");
}

TEST(Isa, an_unknown_override_is_an_error) {
  EXPECT_EQ(choose_isa(Isa::avx2, "sse9").error.text(),
            "expected RIDGE_ISA to be plain, avx2, avx512, avx512_bf16 or amx, found 'sse9'");
}

TEST(Isa, an_override_without_kernels_is_an_error) {
  const IsaRange compiled{Isa::avx512, Isa::avx512_bf16};
  EXPECT_EQ(choose_isa(Isa::avx512_bf16, "avx512", compiled).isa, Isa::avx512);
  const IsaChoice choice = choose_isa(Isa::avx512_bf16, "avx2", compiled);
  EXPECT_EQ(choice.isa, Isa::avx512_bf16);
  EXPECT_EQ(choice.error.text(),
            "expected RIDGE_ISA to name an instruction set that this program was compiled for (avx512 to avx512_bf16), "
            "found 'avx2'; configure with -DRIDGE_ISAS=ALL");
}

TEST(Isa, a_cpu_uses_the_best_set_that_was_compiled) {
  EXPECT_EQ(choose_isa(Isa::amx, nullptr, {Isa::avx2, Isa::avx512}).isa, Isa::avx512);
}

TEST(Isa, a_cpu_below_the_compiled_sets_is_an_error) {
  const IsaChoice choice = choose_isa(Isa::avx2, nullptr, {Isa::avx512, Isa::avx512});
  EXPECT_EQ(choice.isa, Isa::avx512);
  EXPECT_EQ(choice.error.text(),
            "expected a CPU with avx512, for which this program's kernels were compiled, found avx2; build it on this "
            "CPU, or with -DRIDGE_ISAS=ALL");
}

TEST(Isa, set_active_isa_accepts_only_sets_of_this_cpu) {
  const Isa before = active_isa();
  for (const Isa each : available_isas()) {
    EXPECT_TRUE(set_active_isa(each));
    EXPECT_EQ(active_isa(), each);
  }
  if (detected_isa() != Isa::amx) {
    EXPECT_FALSE(set_active_isa(Isa::amx));
  }
  EXPECT_TRUE(set_active_isa(before));
}

TEST(Isa, set_active_isa_enables_bf16_pairs) {
  const Isa before = active_isa();
  set_bf16_pairs(false);
  EXPECT_FALSE(multiplies_bf16_pairs());
  EXPECT_TRUE(set_active_isa(before));
  EXPECT_TRUE(multiplies_bf16_pairs());
}

TEST(Isa, every_cpu_has_plain) { EXPECT_EQ(available_isas().front(), Isa::plain); }

TEST(CacheSizes, missing_sysfs_entries_keep_their_defaults) {
  const FakeRoot root;
  const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index";
  const auto level = [&](int index, const char* type, const char* number, const char* size) {
    root.write_file(cache + std::to_string(index) + "/type", type);
    root.write_file(cache + std::to_string(index) + "/level", number);
    root.write_file(cache + std::to_string(index) + "/size", size);
  };
  EXPECT_EQ(read_cache_sizes(root.path()), CacheSizes{});
  level(0, "Data", "1", "48K");
  level(1, "Instruction", "1", "64K");
  level(2, "Unified", "2", "2M");
  EXPECT_EQ(read_cache_sizes(root.path()), (CacheSizes{48 << 10, 2 << 20, CacheSizes{}.l3}));
  level(2, "Unified", "2", "none");
  EXPECT_EQ(read_cache_sizes(root.path()).l2, CacheSizes{}.l2);
}

}  // namespace
}  // namespace ridge::pool

#include "ridge/tile/cpu/schedule.h"

#include <gtest/gtest.h>

#include "ridge/pool/isa.h"

namespace ridge::tile::cpu {
namespace {

constexpr TileLimits limits{112, 4096, 4096};

// Chooses a schedule for A[k, m] and B[k, n] in f32. The matrices have no data.
CpuSchedule schedule_for(MatmulSizes p, int threads) {
  Matrix a, b;
  a.row_stride = 1;
  a.col_stride = p.size.m;
  b.row_stride = 1;
  b.col_stride = p.size.n;
  return choose_schedule(p, {find_engine(DType::f32, DType::f32), 4, 4, &a, &b}, limits, threads);
}

Index packed_bytes(const MatmulSizes& p, const CpuSchedule& s) { return ceil_div(p.size.m, s.groups) * p.size.k * 4; }

TEST(CpuSchedule, threads_share_row_groups_if_columns_suffice) {
  for (const int threads : {1, 2, 4}) {
    const MatmulSizes p{1, 8192, 4096, 4096};
    const CpuSchedule s = schedule_for(p, threads);
    EXPECT_TRUE(s.shares_groups) << threads << " threads";
    EXPECT_EQ(s.column_blocks % threads, 0);
    EXPECT_LE(packed_bytes(p, s), Index{16} << 20);
    EXPECT_GE(packed_bytes(p, s), Index{8} << 20);  // each group of rows needs a pass over B
  }
}

TEST(CpuSchedule, unshared_groups_of_all_threads_fit_in_16_mib) {
  for (const MatmulSizes& p : {MatmulSizes{1, 65536, 32, 4096}, MatmulSizes{16, 8192, 4096, 1024}})
    for (const int threads : {2, 4}) {
      const CpuSchedule s = schedule_for(p, threads);
      EXPECT_FALSE(s.shares_groups) << p.batch << " products, " << threads << " threads";
      EXPECT_LE(packed_bytes(p, s) * threads, Index{16} << 20);
    }
}

TEST(CpuSchedule, few_columns_with_long_k_are_split_among_threads) {
  const auto splits_columns = [](Index m, Index n, Index k) {
    Matrix a, b;  // A[m, k], B[n, k]: k contiguous
    a.col_stride = b.col_stride = 1;
    a.row_stride = b.row_stride = k;
    const CpuSchedule s = choose_schedule({1, m, n, k}, {find_engine(DType::f32, DType::f32), 4, 4, &a, &b}, limits, 2);
    return s.shares_groups && s.column_blocks == 2;
  };
  const Index panel = find_engine(DType::f32, DType::f32)->cols;
  EXPECT_TRUE(splits_columns(4 * panel, 2 * panel, 16384));
  EXPECT_FALSE(splits_columns(4 * panel, 2 * panel, 64)) << "one stage";
  EXPECT_FALSE(splits_columns(8 * panel, 2 * panel, 16384)) << "A is twice as large";
  EXPECT_FALSE(splits_columns(4 * panel, panel + 1, 16384)) << "uneven: a panel and a single column";
  EXPECT_FALSE(schedule_for({1, 4 * panel, 2 * panel, 16384}, 2).shares_groups) << "columns contiguous";
}

// Chooses a schedule for a bf16 tile engine whose rows are split at multiples of 16.
CpuSchedule schedule_for_tiles(MatmulSizes p, int threads) {
  Engine tiles;
  tiles.rows = tiles.cols = 32;
  tiles.per_unit = 2;
  tiles.step_multiple = tiles.row_multiple = 16;
  tiles.skinny_left_packers.along_k = [](const PackArgs&) {};
  tiles.skinny_along_k = tiles.skinny_across_k = [](const SkinnyArgs&) {};
  tiles.max_skinny_along_k_rows = 64;
  Matrix a, b;  // A[m, k], B[n, k]: k contiguous
  a.col_stride = b.col_stride = 1;
  a.row_stride = b.row_stride = p.size.k;
  return choose_schedule(p, {&tiles, 2, 2, &a, &b}, limits, threads);
}

TEST(CpuSchedule, sums_kept_between_stages_fit_in_16_mib) {
  for (const MatmulSizes& p : {MatmulSizes{1, 60000, 4096, 4096}, MatmulSizes{1, 15360, 544, 4096}}) {
    const CpuSchedule s = schedule_for_tiles(p, 1);
    ASSERT_TRUE(s.scratch_sums);
    EXPECT_LE(ceil_div(p.size.m, s.groups) * ceil_div(p.size.n, s.column_blocks) * 4, Index{16} << 20);
  }
}

TEST(CpuSchedule, skinny_tiles_need_more_weights_than_activations) {
  EXPECT_TRUE(schedule_for_tiles({1, 64, 64, 4096}, 1).skinny);
  EXPECT_FALSE(schedule_for_tiles({1, 64, 64, 4096}, 2).skinny);
  // Several k blocks change the summation order, so one thread must not use them either: results stay bitwise equal.
  EXPECT_FALSE(schedule_for_tiles({1, 64, 64, 4098}, 1).skinny);
  EXPECT_TRUE(schedule_for_tiles({1, 64, 4096, 16384}, 1).skinny);
  EXPECT_TRUE(schedule_for_tiles({1, 64, 4096, 16384}, 2).skinny);
}

// Chooses a schedule for an engine of int8 quads (per_unit 4) or f32 (per_unit 1), with B along k or across k.
CpuSchedule schedule_for_few_rows(MatmulSizes p, int per_unit, bool along, int threads = 1) {
  Engine e;
  e.rows = 14;
  e.cols = 32;
  e.per_unit = per_unit;
  e.right_in_place = per_unit == 1;
  e.skinny_along_k = e.skinny_across_k = [](const SkinnyArgs&) {};
  Matrix a, b;
  a.col_stride = 1;
  a.row_stride = p.size.k;
  b.col_stride = along ? 1 : p.size.n;
  b.row_stride = along ? p.size.k : 1;
  const int bytes = per_unit == 1 ? 4 : 1;
  return choose_schedule(p, {&e, bytes, bytes, &a, &b}, limits, threads);
}

TEST(CpuSchedule, few_f32_rows_read_B_in_place_if_B_fits_in_L2) {
  const Index k = pool::cache_sizes().l2 / 4 / 1024;  // 1024 columns fill the L2
  for (const Index m : {1, 8}) {
    const CpuSchedule s = schedule_for_few_rows({1, m, 1024, k}, 1, false);
    EXPECT_FALSE(s.skinny || s.pack_right) << m << " rows";
    EXPECT_TRUE(schedule_for_few_rows({1, m, 2048, k}, 1, false).skinny) << m << " rows, twice the L2";
  }
  EXPECT_TRUE(schedule_for_few_rows({1, 8, 1024, k}, 1, true).skinny) << "k contiguous";
}

TEST(CpuSchedule, one_panel_of_rows_reads_B_in_place_in_one_stage) {
  EXPECT_EQ(schedule_for_few_rows({1, 14, 512, 384}, 1, false).stages, 1);
  EXPECT_GT(schedule_for_few_rows({1, 15, 512, 384}, 1, false).stages, 1) << "two panels";
}

TEST(CpuSchedule, few_columns_of_a_long_k_need_no_packed_B) {
  const auto is_skinny = [](Index m, Index n, Index k) {
    Matrix a, b;  // A[m, k], B[n, k]: k contiguous
    a.col_stride = b.col_stride = 1;
    a.row_stride = b.row_stride = k;
    Engine e;
    e.rows = 14;
    e.cols = 32;
    e.per_unit = 1;
    e.max_skinny_along_k_rows = 16;
    e.multiply_small = [](const SmallArgs&) {};
    e.skinny_along_k = [](const SkinnyArgs&) {};
    return choose_schedule({1, m, n, k}, {&e, 4, 4, &a, &b}, limits, 1).skinny;
  };
  EXPECT_TRUE(is_skinny(128, 7, 36));
  EXPECT_FALSE(is_skinny(128, 7, 35)) << "short k";
  EXPECT_FALSE(is_skinny(129, 7, 36)) << "many rows";
  EXPECT_FALSE(is_skinny(128, 8, 100)) << "more columns";
}

TEST(CpuSchedule, few_rows_of_a_short_k_pack_B) {
  for (const auto& [rows, k] : {std::pair{1, 6}, {5, 30}, {16, 96}}) {
    EXPECT_FALSE(schedule_for_few_rows({1, rows, 1000, k}, 1, true).skinny) << rows << " rows";
    EXPECT_TRUE(schedule_for_few_rows({1, rows, 1000, k + 1}, 1, true).skinny) << rows << " rows";
  }
  EXPECT_FALSE(schedule_for_few_rows({1, 8, 31, 32}, 1, true).skinny) << "31 columns";
  EXPECT_TRUE(schedule_for_few_rows({1, 8, 31, 33}, 1, true).skinny) << "31 columns";
  EXPECT_FALSE(schedule_for_few_rows({1, 8, 7, 16}, 1, true).skinny) << "7 columns";
  EXPECT_TRUE(schedule_for_few_rows({1, 8, 7, 17}, 1, true).skinny) << "7 columns";
  EXPECT_FALSE(schedule_for_few_rows({1, 2, 1000, 48}, 4, true).skinny) << "int8";
  EXPECT_TRUE(schedule_for_few_rows({1, 2, 1000, 49}, 4, true).skinny) << "int8";
}

TEST(CpuSchedule, a_second_skinny_pass_over_int8_needs_B_larger_than_L2) {
  const Index k = pool::cache_sizes().l2 / 1024;
  EXPECT_TRUE(schedule_for_few_rows({1, 8, 1024, k}, 4, true).skinny);
  EXPECT_FALSE(schedule_for_few_rows({1, 9, 1024, k}, 4, true).skinny);
  EXPECT_TRUE(schedule_for_few_rows({1, 9, 2048, k}, 4, true).skinny);
}

TEST(CpuSchedule, two_rows_on_two_threads_use_scratch_sums) {
  EXPECT_TRUE(schedule_for_few_rows({1, 2, 4096, 4096}, 2, false, 2).scratch_sums);
  EXPECT_FALSE(schedule_for_few_rows({1, 2, 4096, 4096}, 2, false).scratch_sums);
  EXPECT_FALSE(schedule_for_few_rows({1, 1, 4096, 4096}, 2, false, 2).scratch_sums);
}

TEST(CpuSchedule, few_row_limit_depends_on_layout_and_cache_of_B) {
  Engine tiles;
  tiles.per_unit = 2;
  tiles.few_rows_engine = [] { return find_engine(DType::f32, DType::f32); };
  tiles.few_row_limits = {2, 6, 4};
  const Index k = pool::cache_sizes().l2 / 2 / 1024;  // 512 columns of bf16 take half of the L2
  const auto max_few_rows = [&](Index n, bool along) {
    Matrix b;
    b.col_stride = along ? 1 : n;
    b.row_stride = along ? k : 1;
    Index m = 0;
    while (&choose_engine({1, m + 1, n, k}, tiles, b, true) != &tiles) ++m;
    return m;
  };
  EXPECT_EQ(max_few_rows(512, true), 2);
  EXPECT_EQ(max_few_rows(1024, false), 6);
  EXPECT_EQ(max_few_rows(512, false), 4);
}

}  // namespace
}  // namespace ridge::tile::cpu

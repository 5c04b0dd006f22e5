#include "ridge/tile/cpu/schedule.h"

#include <gtest/gtest.h>

#include "ridge/pool/isa.h"

namespace ridge::tile::cpu {
namespace {

constexpr TileLimits limits{112, 4096, 4096};

// A[k, m] and B[k, n]; their addresses are not used.
CpuSchedule schedule_for(MatmulSizes p, int threads) {
  Matrix a, b;
  a.row_stride = 1;
  a.col_stride = p.m;
  b.row_stride = 1;
  b.col_stride = p.n;
  return choose_schedule(p, {find_engine(DType::f32, DType::f32), 4, 4, &a, &b}, limits, threads);
}

Index packed_bytes(const MatmulSizes& p, const CpuSchedule& s) { return ceil_div(p.m, s.groups) * p.k * 4; }

TEST(CpuSchedule, threads_with_columns_enough_share_each_group_of_rows) {
  for (const int threads : {1, 2, 4}) {
    const MatmulSizes p{1, 8192, 4096, 4096};
    const CpuSchedule s = schedule_for(p, threads);
    EXPECT_TRUE(s.shares_groups) << threads << " threads";
    EXPECT_EQ(s.column_blocks % threads, 0);
    EXPECT_LE(packed_bytes(p, s), Index{16} << 20);
    EXPECT_GE(packed_bytes(p, s), Index{8} << 20);  // each group costs a pass over B
  }
}

TEST(CpuSchedule, groups_of_threads_that_share_none_take_the_room_of_one) {
  for (const MatmulSizes& p : {MatmulSizes{1, 65536, 32, 4096}, MatmulSizes{16, 8192, 4096, 1024}})
    for (const int threads : {2, 4}) {
      const CpuSchedule s = schedule_for(p, threads);
      EXPECT_FALSE(s.shares_groups) << p.batch << " products, " << threads << " threads";
      EXPECT_LE(packed_bytes(p, s) * threads, Index{16} << 20);
    }
}

TEST(CpuSchedule, few_columns_that_are_long_in_k_are_cut_sooner_than_packed_by_every_thread) {
  const auto cut = [](Index m, Index n, Index k) {
    Matrix a, b;  // A[m, k], B[n, k]: k contiguous
    a.col_stride = b.col_stride = 1;
    a.row_stride = b.row_stride = k;
    const CpuSchedule s = choose_schedule({1, m, n, k}, {find_engine(DType::f32, DType::f32), 4, 4, &a, &b}, limits, 2);
    return s.shares_groups && s.column_blocks == 2;
  };
  const Index panel = find_engine(DType::f32, DType::f32)->cols;
  EXPECT_TRUE(cut(4 * panel, 2 * panel, 16384));
  EXPECT_FALSE(cut(4 * panel, 2 * panel, 64)) << "one stage";
  EXPECT_FALSE(cut(8 * panel, 2 * panel, 16384)) << "more of A to read";
  EXPECT_FALSE(cut(4 * panel, panel + 1, 16384)) << "a panel for one thread, a column for the other";
  EXPECT_FALSE(schedule_for({1, 4 * panel, 2 * panel, 16384}, 2).shares_groups) << "columns contiguous";
}

// A bf16 tile engine whose rows are split at multiples of 16.
CpuSchedule of_tiles(MatmulSizes p, int threads) {
  Engine tiles;
  tiles.rows = tiles.cols = 32;
  tiles.per_unit = 2;
  tiles.step_multiple = tiles.row_multiple = 16;
  tiles.skinny_left_packers.along_k = [](const PackArgs&) {};
  tiles.skinny_along_k = tiles.skinny_across_k = [](const SkinnyArgs&) {};
  tiles.max_skinny_along_k_rows = 64;
  Matrix a, b;  // A[m, k], B[n, k]: k contiguous
  a.col_stride = b.col_stride = 1;
  a.row_stride = b.row_stride = p.k;
  return choose_schedule(p, {&tiles, 2, 2, &a, &b}, limits, threads);
}

TEST(CpuSchedule, sums_that_wait_for_the_next_stage_take_little_room) {
  for (const MatmulSizes& p : {MatmulSizes{1, 60000, 4096, 4096}, MatmulSizes{1, 15360, 544, 4096}}) {
    const CpuSchedule s = of_tiles(p, 1);
    ASSERT_TRUE(s.scratch);
    EXPECT_LE(ceil_div(p.m, s.groups) * ceil_div(p.n, s.column_blocks) * 4, Index{16} << 20);
  }
}

TEST(CpuSchedule, tiles_of_few_rows_are_not_packed_by_one_thread_while_the_others_wait) {
  EXPECT_TRUE(of_tiles({1, 64, 64, 4096}, 1).skinny);
  EXPECT_FALSE(of_tiles({1, 64, 64, 4096}, 2).skinny);
  // Several k blocks change the summation order, so one thread must not use them either: results stay bitwise equal.
  EXPECT_FALSE(of_tiles({1, 64, 64, 4098}, 1).skinny);
  EXPECT_TRUE(of_tiles({1, 64, 4096, 16384}, 1).skinny);
  EXPECT_TRUE(of_tiles({1, 64, 4096, 16384}, 2).skinny);
}

// Engines for int8 quads and for f32, B along k or across k.
CpuSchedule of_few(MatmulSizes p, int per_unit, bool along, int threads = 1) {
  Engine e;
  e.rows = 14;
  e.cols = 32;
  e.per_unit = per_unit;
  e.right_in_place = per_unit == 1;
  e.skinny_along_k = e.skinny_across_k = [](const SkinnyArgs&) {};
  Matrix a, b;
  a.col_stride = 1;
  a.row_stride = p.k;
  b.col_stride = along ? 1 : p.n;
  b.row_stride = along ? p.k : 1;
  const int bytes = per_unit == 1 ? 4 : 1;
  return choose_schedule(p, {&e, bytes, bytes, &a, &b}, limits, threads);
}

TEST(CpuSchedule, few_rows_of_f32_read_what_lies_in_the_L2_in_place) {
  const Index k = pool::cache_sizes().l2 / 4 / 1024;  // 1024 columns fill the L2
  for (const Index m : {1, 8}) {
    const CpuSchedule s = of_few({1, m, 1024, k}, 1, false);
    EXPECT_FALSE(s.skinny || s.pack_right) << m << " rows";
    EXPECT_TRUE(of_few({1, m, 2048, k}, 1, false).skinny) << m << " rows, twice the L2";
  }
  EXPECT_TRUE(of_few({1, 8, 1024, k}, 1, true).skinny) << "k contiguous";
}

TEST(CpuSchedule, a_second_pass_over_quads_is_for_those_that_lie_in_memory) {
  const Index k = pool::cache_sizes().l2 / 1024;
  EXPECT_TRUE(of_few({1, 8, 1024, k}, 4, true).skinny);
  EXPECT_FALSE(of_few({1, 9, 1024, k}, 4, true).skinny);
  EXPECT_TRUE(of_few({1, 9, 2048, k}, 4, true).skinny);
}

TEST(CpuSchedule, threads_that_add_to_two_rows_keep_their_sums_apart) {
  EXPECT_TRUE(of_few({1, 2, 4096, 4096}, 2, false, 2).scratch);
  EXPECT_FALSE(of_few({1, 2, 4096, 4096}, 2, false).scratch);
  EXPECT_FALSE(of_few({1, 1, 4096, 4096}, 2, false, 2).scratch);
}

TEST(CpuSchedule, how_many_rows_are_few_depends_on_where_B_lies) {
  Engine tiles;
  tiles.per_unit = 2;
  tiles.few_rows_engine = [] { return find_engine(DType::f32, DType::f32); };
  tiles.few_row_limits = {2, 6, 4};
  const Index k = pool::cache_sizes().l2 / 2 / 1024;  // 512 columns of bf16 take half of the L2
  const auto most = [&](Index n, bool along) {
    Matrix b;
    b.col_stride = along ? 1 : n;
    b.row_stride = along ? k : 1;
    Index m = 0;
    while (&choose_engine({1, m + 1, n, k}, tiles, b, true) != &tiles) ++m;
    return m;
  };
  EXPECT_EQ(most(512, true), 2);
  EXPECT_EQ(most(1024, false), 6);
  EXPECT_EQ(most(512, false), 4);
}

}  // namespace
}  // namespace ridge::tile::cpu

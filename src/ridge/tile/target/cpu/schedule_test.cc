#include "ridge/tile/target/cpu/schedule.h"

#include <gtest/gtest.h>

namespace ridge::tile::cpu {
namespace {

constexpr TileLimits limits{112, 4096, 4096};

// A[k, m] and B[k, n], whose places are not looked at.
Schedule of(Problem p, int threads) {
  Matrix a, b;
  a.row_stride = 1, a.col_stride = p.m, b.row_stride = 1, b.col_stride = p.n;
  return choose(p, {engine(DType::f32, DType::f32), 4, 4, &a, &b}, limits, threads);
}

Index packed_bytes(const Problem& p, const Schedule& s) { return ceil_div(p.m, s.groups) * p.k * 4; }

TEST(Schedule, threads_with_columns_enough_share_each_group_of_rows) {
  for (const int threads : {1, 2, 4}) {
    const Problem p{1, 8192, 4096, 4096};
    const Schedule s = of(p, threads);
    EXPECT_TRUE(s.team) << threads << " threads";
    EXPECT_EQ(s.column_blocks % threads, 0);
    EXPECT_LE(packed_bytes(p, s), Index{16} << 20);
    EXPECT_GE(packed_bytes(p, s), Index{8} << 20);  // each group costs a pass over B
  }
}

TEST(Schedule, groups_of_threads_that_share_none_take_the_room_of_one) {
  for (const Problem& p : {Problem{1, 65536, 32, 4096}, Problem{16, 8192, 4096, 1024}})
    for (const int threads : {2, 4}) {
      const Schedule s = of(p, threads);
      EXPECT_FALSE(s.team) << p.batch << " products, " << threads << " threads";
      EXPECT_LE(packed_bytes(p, s) * threads, Index{16} << 20);
    }
}

}  // namespace
}  // namespace ridge::tile::cpu

// Checks that the traced bytes and FLOPs of the kernel definition equal closed forms exactly, for ragged shapes,
// clusters, splits of k and the schedule of the cpu target.
#include "ridge/ops/product/trace.h"

#include <gtest/gtest.h>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/layout.h"
#include "ridge/pool/testing/test_cpus.h"

namespace ridge::ops {
namespace {

using Index = std::int64_t;

MatmulProblem make_problem(Index m, Index n, Index k, DType in = DType::bf16, DType out = DType::bf16,
                           Index batch = 1) {
  return {batch, m, n, k, {in, k, 1, m * k}, {in, n, 1, k * n}, {out, n, 1, m * n}};
}

struct Tile {
  int m, n, k;
};
constexpr Tile tiles[] = {{128, 128, 64}, {128, 256, 64}, {64, 8, 128}, {256, 128, 32}, {128, 176, 64}};
constexpr Index extents[] = {1, 7, 64, 127, 128, 129, 1000, 1025};

TEST(TileTraffic, CountsEqualTheClosedFormsOnRaggedShapes) {
  int cases = 0;
  for (const Tile& t : tiles)
    for (const Index m : extents)
      for (const Index n : extents)
        for (const Index k : {1, 63, 64, 65, 500}) {
          const MatmulTraffic x =
              count_tile_traffic(make_problem(m, n, k), {.m = t.m, .n = t.n, .k = t.k, .blocks = 7});
          const Index rows = ceil_div(m, t.m), cols = ceil_div(n, t.n), stages = ceil_div(k, t.k),
                      fills = rows * cols * stages;
          ASSERT_EQ(x.flops, 2 * m * n * k);
          ASSERT_EQ(x.issued_flops, 2 * fills * t.m * t.n * t.k);
          ASSERT_EQ(x.a.global_bytes, 2 * m * k * cols) << m << " " << n << " " << k;
          ASSERT_EQ(x.b.global_bytes, 2 * k * n * rows) << m << " " << n << " " << k;
          ASSERT_EQ(x.d.global_bytes, 2 * m * n);
          ASSERT_EQ(x.a.requested_bytes, x.a.global_bytes);
          ASSERT_EQ(x.a.shared_bytes, 2 * fills * t.m * t.k);
          ASSERT_EQ(x.b.shared_bytes, 2 * fills * t.n * t.k);
          ASSERT_EQ(x.a.register_bytes, x.a.shared_bytes);
          ASSERT_EQ(x.b.register_bytes, x.b.shared_bytes * ceil_div(t.m, 64)) << "B is read by every 64 rows of A";
          ASSERT_EQ(x.items, rows * cols);
          ASSERT_EQ(x.stages, fills);
          ASSERT_EQ(x.partial_bytes, 0);
          ++cases;
        }
  EXPECT_EQ(cases, 5 * 8 * 8 * 5);
}

TEST(TileTraffic, RequestsDoNotDependOnBlocksOrTileOrder) {
  const MatmulProblem p = make_problem(1000, 900, 300);
  const MatmulTraffic one = count_tile_traffic(p, {.blocks = 1});
  for (const int blocks : {2, 5, 132})
    for (const int raster_rows : {1, 3, 8})
      EXPECT_EQ(count_tile_traffic(p, {.raster_rows = raster_rows, .blocks = blocks}), one);
}

TEST(TileTraffic, BytesScaleWithElementSizeAndBatch) {
  const MatmulTraffic f = count_tile_traffic(make_problem(200, 300, 100, DType::f32, DType::f32, 3), {});
  EXPECT_EQ(f.flops, 3 * 2 * 200 * 300 * 100);
  EXPECT_EQ(f.a.global_bytes, 3 * 4 * 200 * 100 * 3);
  EXPECT_EQ(f.b.global_bytes, 3 * 4 * 300 * 100 * 2);
  EXPECT_EQ(f.d.global_bytes, 3 * 4 * 200 * 300);
  const MatmulTraffic wide = count_tile_traffic(make_problem(200, 300, 100, DType::bf16, DType::f32), {});
  EXPECT_EQ(wide.d.global_bytes, 4 * 200 * 300);
  const MatmulTraffic i = count_tile_traffic(make_problem(200, 300, 100, DType::int8, DType::int32), {});
  EXPECT_EQ(i.a.global_bytes, 200 * 100 * 3);
  EXPECT_EQ(i.d.global_bytes, 4 * 200 * 300);
}

TEST(TileTraffic, ClusterRequestsSharedTilesOnce) {
  for (const Index m : extents)
    for (const Index n : extents) {
      const MatmulTraffic pair = count_tile_traffic(make_problem(m, n, 100), {.cluster_m = 2, .blocks = 4});
      ASSERT_EQ(pair.b.global_bytes, 2 * 100 * n * ceil_div(m, 256)) << m << " " << n;
      ASSERT_EQ(pair.a.global_bytes, 2 * 100 * m * ceil_div(n, 128)) << m << " " << n;
      ASSERT_EQ(pair.flops, 2 * m * n * 100);
      ASSERT_EQ(pair.d.global_bytes, 2 * m * n);
      const MatmulTraffic four = count_tile_traffic(make_problem(m, n, 100), {.cluster_n = 4, .blocks = 4});
      ASSERT_EQ(four.a.global_bytes, 2 * 100 * m * ceil_div(n, 512)) << m << " " << n;
      ASSERT_EQ(four.b.global_bytes, 2 * 100 * n * ceil_div(m, 128)) << m << " " << n;
    }
}

TEST(TileTraffic, PartialSumsAreWrittenAndReadOnce) {
  for (const int splits : {1, 2, 3, 7}) {
    const MatmulTraffic x = count_tile_traffic(make_problem(200, 300, 1000), {.splits = splits});
    const Index sums = 2 * 3 * 128 * 128 * 4;
    EXPECT_EQ(x.partial_bytes, splits == 1 ? 0 : 2 * splits * sums);
    EXPECT_EQ(x.flops, 2 * 200 * 300 * 1000);
    EXPECT_EQ(x.a.global_bytes, 2 * 200 * 1000 * 3);
    EXPECT_EQ(x.d.global_bytes, 2 * 200 * 300);
    EXPECT_EQ(x.items, 6 * splits);
  }
}

TEST(TileTraffic, EpilogueReadsItsOperandsOncePerTile) {
  const MatmulProblem p = make_problem(200, 300, 100);  // 2 x 3 tiles
  MatmulEpilogue e;
  e.bias = {&e, DType::f32, 0, 1};
  e.scale = {&e, DType::f32, 1, 0};
  e.addend = {&e, DType::bf16, 300, 1};
  const MatmulTraffic x = count_tile_traffic(p, {}, e), plain = count_tile_traffic(p, {});
  EXPECT_EQ(x.bias.global_bytes, 4 * 300 * 2);
  EXPECT_EQ(x.scale.global_bytes, 4 * 200 * 3);
  EXPECT_EQ(x.addend.global_bytes, 2 * 200 * 300);
  EXPECT_EQ(x.gate, OperandTraffic{});
  EXPECT_EQ(x.global_bytes(), plain.global_bytes() + 2400 + 2400 + 120000);
  const MatmulTraffic swapped = count_tile_traffic(p, {.m = 128, .n = 16, .k = 128, .swap = true}, e);
  EXPECT_EQ(swapped.bias.global_bytes, 4 * 300 * 13) << "300 columns for each 16 rows";
  EXPECT_EQ(swapped.scale.global_bytes, 4 * 200 * 3);
}

TEST(CpuTraffic, Int8WeightsMoveOneBytePerElement) {
  MatmulProblem p = make_problem(90, 600, 700, DType::bf16, DType::bf16);  // One block of rows on every instruction set
  p.b.dtype = DType::int8;
  MatmulEpilogue e;
  e.scale = {&e, DType::f32, 0, 1};
  for (const pool::Cpu& cpu : pool::all_test_cpus()) {
    const MatmulTraffic x = count_cpu_traffic(p, 1, e, cpu);
    EXPECT_EQ(x.a.global_bytes, 2 * 90 * 700) << pool::describe_cpu(cpu);
    EXPECT_EQ(x.b.global_bytes, 600 * 700) << pool::describe_cpu(cpu);
    EXPECT_EQ(x.scale.global_bytes, 4 * 600) << pool::describe_cpu(cpu);
  }
}

TEST(TileTraffic, SwappedTilesReportTheCallersOperands) {
  const MatmulTraffic x = count_tile_traffic(make_problem(16, 4096, 1000), {.m = 128, .n = 16, .k = 128, .swap = true});
  EXPECT_EQ(x.b.global_bytes, 2 * 1000 * 4096) << "weights once";
  EXPECT_EQ(x.a.global_bytes, 2 * 1000 * 16 * 32) << "tokens once for each 128 weights";
}

TEST(TileTraffic, EmptySumsAreStillStored) {
  const MatmulTraffic x = count_tile_traffic(make_problem(200, 300, 0), {});
  EXPECT_EQ(x.flops, 0);
  EXPECT_EQ(x.a.global_bytes, 0);
  EXPECT_EQ(x.d.global_bytes, 2 * 200 * 300);
  EXPECT_EQ(count_tile_traffic(make_problem(0, 300, 100), {}), MatmulTraffic{});
}

TEST(TileTraffic, LargeCacheReadsMemoryOnceTinyCacheEveryRequest) {
  const MatmulProblem p = make_problem(1000, 900, 500);
  const MatmulTraffic all = count_tile_traffic(p, {.blocks = 4, .cache_bytes = 1 << 30});
  EXPECT_EQ(all.a.memory_bytes, 2 * 1000 * 500);
  EXPECT_EQ(all.b.memory_bytes, 2 * 900 * 500);
  const MatmulTraffic none = count_tile_traffic(p, {.blocks = 4, .cache_bytes = 1});
  EXPECT_EQ(none.a.memory_bytes, none.a.global_bytes);
  EXPECT_EQ(none.b.memory_bytes, none.b.global_bytes);
}

TEST(TileTraffic, RasterBandsReadLessMemoryThanSingleRows) {
  const MatmulProblem p = make_problem(4096, 4096, 512);
  const MatmulTraffic row = count_tile_traffic(p, {.raster_rows = 1, .blocks = 16, .cache_bytes = 3 << 20});
  const MatmulTraffic raster_rows = count_tile_traffic(p, {.raster_rows = 4, .blocks = 16, .cache_bytes = 3 << 20});
  EXPECT_LT(raster_rows.a.memory_bytes + raster_rows.b.memory_bytes, row.a.memory_bytes + row.b.memory_bytes);
}

// CPUs pack A, so that each panel of A is read from memory once.
TEST(CpuTraffic, AAndBAreReadFromMemoryOnce) {
  const auto check = [](DType in, Index m, Index n, Index k, const pool::Cpu& cpu) {
    const Index size = dtype_bits(in) / 8;
    const MatmulTraffic x = count_cpu_traffic(make_problem(m, n, k, in, DType::f32), 1, {}, cpu);
    SCOPED_TRACE(pool::describe_cpu(cpu));
    ASSERT_EQ(x.flops, 2 * m * n * k);
    ASSERT_EQ(x.a.global_bytes, size * m * k) << m << " " << n << " " << k;
    ASSERT_EQ(x.b.global_bytes, size * n * k) << m << " " << n << " " << k;
    ASSERT_EQ(x.d.global_bytes, 4 * m * n);
    ASSERT_GE(x.b.requested_bytes, x.b.global_bytes);
  };
  for (const pool::Cpu& cpu : pool::all_test_cpus())
    for (const DType in : {DType::f32, DType::bf16})
      for (const Index m : {9, 100, 113, 1000})
        for (const Index n : {600, 1025})
          for (const Index k : {70, 1500}) check(in, m, n, k, cpu);
}

// 48 x 48 x 48 is small and runs on one thread; two threads would read B twice.
TEST(CpuTraffic, SmallProductsAreCountedOnOneThread) {
  const MatmulProblem small = make_problem(48, 48, 48, DType::f32, DType::f32);
  const MatmulProblem large = make_problem(100, 20, 2000, DType::f32, DType::f32);
  for (const pool::Cpu& cpu : pool::all_test_cpus()) {
    SCOPED_TRACE(pool::describe_cpu(cpu));
    const auto of = [&](const MatmulProblem& p, int threads) { return count_cpu_traffic(p, threads, {}, cpu); };
    for (const int threads : {0, 2, 8}) EXPECT_EQ(of(small, threads), of(small, 1)) << threads;
    EXPECT_GT(of(large, 2).b.global_bytes, of(large, 1).b.global_bytes);
  }
}

// 33 bytes hold 32 elements of mxfp8, and 66 bytes 128 of int4_128. A block-scaled left operand is counted as the right
// one of the transposed product.
TEST(CpuTraffic, BlockScaledOperandsCountAsTheyAreStored) {
  for (const std::int64_t m : {1, 20, 130})
    for (const DType scaled : {DType::mxfp8, DType::int4_128}) {
      MatmulProblem p = make_problem(m, 300, 640, DType::bf16, DType::f32);
      p.b = {scaled, 1, 640, 640 * 300};
      for (const pool::Cpu& cpu : pool::all_test_cpus()) {
        SCOPED_TRACE(pool::describe_cpu(cpu));
        const MatmulTraffic x = count_cpu_traffic(p, 1, {}, cpu);
        EXPECT_EQ(x.flops, 2 * m * 300 * 640);
        EXPECT_EQ(x.b.global_bytes, scaled == DType::mxfp8 ? 300 * 640 / 32 * 33 : 300 * 640 / 128 * 66);
        const MatmulTraffic transposed = count_cpu_traffic(transpose_problem(p), 1, {}, cpu);
        EXPECT_EQ(transposed.a, x.b);
        EXPECT_EQ(transposed.b, x.a);
      }
    }
}

TEST(CpuTraffic, TransposedAndEmptyOutputsAreCounted) {
  MatmulProblem p = make_problem(700, 900, 300, DType::f32, DType::f32);
  p.d.row_stride = 1;
  p.d.col_stride = 700;
  for (const pool::Cpu& cpu : pool::all_test_cpus()) {
    SCOPED_TRACE(pool::describe_cpu(cpu));
    const MatmulTraffic x = count_cpu_traffic(p, 2, {}, cpu);
    EXPECT_EQ(x.flops, 2 * 700 * 900 * 300);
    EXPECT_EQ(x.a.global_bytes, 4 * 700 * 300);
    EXPECT_EQ(count_cpu_traffic(make_problem(0, 5, 5, DType::f32, DType::f32), 1, {}, cpu), MatmulTraffic{});
    const MatmulTraffic zeros = count_cpu_traffic(make_problem(5, 6, 0, DType::f32, DType::f32), 1, {}, cpu);
    EXPECT_EQ(zeros.flops, 0);
    EXPECT_EQ(zeros.d.global_bytes, 4 * 5 * 6);
  }
}

}  // namespace
}  // namespace ridge::ops

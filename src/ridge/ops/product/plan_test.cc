// Tests properties of chosen plans other than speed: safe prefetching and full clusters.
#include <gtest/gtest.h>
#include <algorithm>

#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/operands.h"
#include "ridge/plan/testing/hopper.h"

namespace ridge::ops::cuda {
namespace {

using tile::SplitMode;

constexpr std::size_t workspace = std::size_t{64} << 20;
// Plans use addresses but never dereference them.
void* placeholder_pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

MatrixLayout row_major(std::int64_t line) { return {DType::bf16, line, 1, 0}; }
MatrixLayout column_major(std::int64_t line) { return {DType::bf16, 1, line, 0}; }

MatmulCall make_call(std::int64_t m, std::int64_t n, std::int64_t k, MatrixLayout a, MatrixLayout b, MatrixLayout d) {
  MatmulCall c;
  c.problem = {1, m, n, k, a, b, d};
  c.a = placeholder_pointer(1 << 20);
  c.b = placeholder_pointer(2 << 20);
  c.d = placeholder_pointer(3 << 20);
  return c;
}

// Kernels with register loads need no copies.
MatmulPlan fastest_plan_of_tiles(const MatmulCall& call) {
  const auto all = list_candidates(call, workspace, h200_numbers(), 1);
  const auto found = std::ranges::find(all, MatmulPlan::Path::tiles, &MatmulPlan::path);
  return found == all.end() ? MatmulPlan() : *found;
}

TEST(MatmulPlan, OnlyConstantWeightsArePrefetched) {
  MatmulCall c = make_call(8, 4096, 4096, row_major(4096), column_major(4096), row_major(4096));
  EXPECT_FALSE(choose_plan(c, workspace, h200_numbers()).prefetch_constants);
  c.constant_b = true;
  EXPECT_TRUE(choose_plan(c, workspace, h200_numbers()).prefetch_constants);
  c.b = placeholder_pointer((2 << 20) + 2);  // The kernel reads a copy
  EXPECT_TRUE(fastest_plan_of_tiles(c).copy_b);
  EXPECT_FALSE(fastest_plan_of_tiles(c).prefetch_constants);
}

TEST(MatmulPlan, ScaledBlocksAreMultipliedByTilesWithoutCopies) {
  const auto call = [](std::int64_t m, std::int64_t k, std::int64_t line) {
    MatmulCall c = make_call(m, 2112, k, row_major(line), column_major(line), row_major(2112));
    c.problem.a.dtype = c.problem.b.dtype = DType::e4m3_128;
    return c;
  };
  for (const std::int64_t m : {1, 64, 300, 4096}) {
    const MatmulCall c = call(m, 7168, 7168);
    ASSERT_FALSE(unsupported_reason(c)) << unsupported_reason(c).text();
    const MatmulPlan plan = choose_plan(c, workspace, h200_numbers());
    EXPECT_EQ(plan.path, MatmulPlan::Path::tiles) << m;
    EXPECT_FALSE(plan.copy_a || plan.copy_b) << m;
    EXPECT_NE(sm90_kernel_configs[static_cast<std::size_t>(plan.config)].roles, tile::Roles::pingpong) << m;
  }
  EXPECT_FALSE(unsupported_reason(call(8, 640, 640)));
  EXPECT_EQ(unsupported_reason(call(8, 640, 1024)).text(),
            "a: expected lines of 640 elements without gaps, found strides of 1024 and 0 elements");
  EXPECT_EQ(unsupported_reason(call(8, 600, 600)).text(), "k: expected a multiple of 128, found 600");
  MatmulCall batched = call(8, 640, 3 * 640);
  batched.problem.batch = 3;
  batched.problem.d.batch_stride = 8 * 2112;
  batched.problem.a.batch_stride = batched.problem.b.batch_stride = 640;
  EXPECT_FALSE(unsupported_reason(batched)) << unsupported_reason(batched).text();
  MatmulCall crooked = call(8, 512, 512);
  crooked.a = placeholder_pointer((1 << 20) + 8);
  EXPECT_EQ(unsupported_reason(crooked).text(),
            "a: expected the address of a block-scaled operand to be a multiple of 16 bytes, found 0x100008");
}

MatmulCall make_integer_call(std::int64_t m, std::int64_t n, std::int64_t k, DType result) {
  MatmulCall c = make_call(m, n, k, row_major(k), column_major(k), row_major(n));
  c.problem.a.dtype = c.problem.b.dtype = DType::int8;
  c.problem.d.dtype = result;
  return c;
}

TEST(MatmulPlan, IntegersAreMultipliedByTilesWithoutCopies) {
  for (const DType result : {DType::int32, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t m : {1, 64, 300, 4096}) {
      const MatmulCall c = make_integer_call(m, 2112, 7168, result);
      ASSERT_FALSE(unsupported_reason(c)) << unsupported_reason(c).text();
      const MatmulPlan plan = choose_plan(c, workspace, h200_numbers());
      EXPECT_EQ(plan.path, MatmulPlan::Path::tiles) << m;
      EXPECT_FALSE(plan.copy_a || plan.copy_b) << m;
      EXPECT_EQ(has_vector_epilogue(c), result == DType::bf16);
      EXPECT_EQ(can_store_in_bulk(c), result == DType::bf16);
    }
}

TEST(MatmulPlan, IntegersThatAreNotContiguousAlongKAreTransposed) {
  MatmulCall c = make_integer_call(300, 2112, 7168, DType::int32);
  c.problem.b = {DType::int8, 2112, 1, 0};
  const MatmulPlan plan = choose_plan(c, workspace, h200_numbers());
  EXPECT_EQ(plan.path, MatmulPlan::Path::tiles);
  EXPECT_TRUE(plan.copy_b && plan.transpose_b);
  EXPECT_FALSE(plan.copy_a);
  EXPECT_EQ(choose_plan(c, 0, h200_numbers()).path, MatmulPlan::Path::plain) << "no workspace";
  EXPECT_EQ(choose_plan(make_integer_call(8, 16, 0, DType::int32), workspace, h200_numbers()).path,
            MatmulPlan::Path::plain)
      << "zeros";
}

// Sums need no additions by threads, so that also tiles whose groups take turns multiply at the full rate.
TEST(MatmulPlan, IntegersArePredictedToBeFasterThanFloatsOfTheSameBytes) {
  const auto seconds = [](DType operand) {
    MatmulCall c = make_integer_call(8192, 8192, 8192, DType::bf16);
    c.problem.a.dtype = c.problem.b.dtype = operand;
    return choose_plan(c, workspace, h200_numbers()).predicted_s;
  };
  EXPECT_LT(seconds(DType::int8), 0.95 * seconds(DType::e4m3));
  EXPECT_NEAR(seconds(DType::int8), 0.5 * seconds(DType::bf16), 0.05 * seconds(DType::bf16));
}

TEST(MatmulPlan, ResultsOfInt32HaveNoEpilogue) {
  MatmulCall c = make_integer_call(300, 2112, 7168, DType::int32);
  c.epilogue.alpha = 2;
  EXPECT_EQ(unsupported_reason(c).text(), "d: expected f32, bf16 or f16 after an epilogue, found int32");
  c.problem.d.dtype = DType::f16;
  EXPECT_FALSE(unsupported_reason(c));
  c.problem.a.dtype = DType::bf16;
  EXPECT_TRUE(unsupported_reason(c)) << "operands of two dtypes";
  c = make_call(300, 2112, 7168, row_major(7168), column_major(7168), row_major(2112));
  c.problem.d.dtype = DType::int32;
  EXPECT_EQ(unsupported_reason(c).text(),
            "expected two operands of the same dtype, f32, bf16, f16, e4m3, tf32, e4m3_128 or int8, and a result of "
            "f32, bf16 or f16, of int8 also int32; found bf16 * bf16 -> int32");
}

TEST(MatmulPlan, FewRowsOfUnalignedOperandsUseGemv) {
  using Path = MatmulPlan::Path;
  const auto path = [](const MatmulCall& c) { return choose_plan(c, workspace, h200_numbers()).path; };
  EXPECT_EQ(path(make_call(1, 5840, 132, row_major(132), column_major(132), row_major(5840))), Path::gemv);
  EXPECT_EQ(path(make_call(4, 320, 20001, row_major(20001), column_major(20001), row_major(320))), Path::tiles)
      << "20 rounds of loads";
  EXPECT_EQ(path(make_call(5840, 2, 132, row_major(132), column_major(132), column_major(5840))), Path::gemv)
      << "computed transposed";
  EXPECT_EQ(path(make_call(1, 5840, 136, row_major(136), column_major(136), row_major(5840))), Path::tiles)
      << "the copy engine reads it";
  EXPECT_NE(path(make_call(5, 5840, 132, row_major(132), column_major(132), row_major(5840))), Path::gemv)
      << "too many rows";
  EXPECT_EQ(path(make_call(1, 5841, 136, row_major(136), row_major(5841), row_major(5841))), Path::tiles)
      << "B along n";
  MatmulCall none = make_call(1, 5840, 0, row_major(0), column_major(0), row_major(5840));
  EXPECT_EQ(path(none), Path::plain) << "zeros";
  EXPECT_TRUE(list_candidates(make_call(1, 0, 132, row_major(132), column_major(132), row_major(8)), workspace,
                              h200_numbers(), 1)
                  .empty());
}

// f32 has no tile kernels: few rows take the GEMV kernel, more rows the one with register loads.
TEST(MatmulPlan, F32UsesGemvOrRegisterLoads) {
  const auto path = [](std::int64_t m) {
    MatmulCall c = make_call(m, 4096, 4096, row_major(4096), column_major(4096), row_major(4096));
    c.problem.a.dtype = c.problem.b.dtype = c.problem.d.dtype = DType::f32;
    return choose_plan(c, workspace, h200_numbers()).path;
  };
  EXPECT_EQ(path(1), MatmulPlan::Path::gemv);
  EXPECT_EQ(path(5), MatmulPlan::Path::register_loads);
  EXPECT_EQ(path(4096), MatmulPlan::Path::register_loads);
}

// Operands of 16 bits take register loads only if the copy engine cannot read them as they are, or k is short.
TEST(MatmulPlan, UnalignedOperandsMayUseRegisterLoads) {
  const auto count = [](const MatmulCall& c) {
    const auto all = list_candidates(c, workspace, h200_numbers(), 1);
    return std::ranges::count(all, MatmulPlan::Path::register_loads, &MatmulPlan::path);
  };
  EXPECT_GT(count(make_call(23, 762, 38, row_major(38), column_major(38), row_major(762))), 0);
  EXPECT_EQ(count(make_call(23, 768, 128, row_major(128), column_major(128), row_major(768))), 0);
  EXPECT_GT(count(make_call(23, 768, 128, row_major(129), column_major(128), row_major(768))), 0) << "A is unaligned";
  EXPECT_GT(count(make_call(50, 768, 128, column_major(50), row_major(768), row_major(768))), 0) << "A is narrow";
}

// 16 warps of tiles would multiply rows that do not exist; the GEMV kernel takes B along k or n, and one column of D.
TEST(MatmulPlan, BatchesOfFewRowsUseGemv) {
  using Path = MatmulPlan::Path;
  const auto choose = [](std::int64_t batch, MatmulCall c) {
    c.problem.batch = batch;
    c.problem.a.batch_stride = c.problem.size.m * c.problem.size.k;
    c.problem.b.batch_stride = c.problem.size.k * c.problem.size.n;
    c.problem.d.batch_stride = c.problem.size.m * c.problem.size.n;
    return choose_plan(c, workspace, h200_numbers());
  };
  const MatmulCall row = make_call(1, 7168, 8, row_major(8), row_major(7168), row_major(7168));
  EXPECT_EQ(choose(1024, row).path, Path::gemv);
  EXPECT_EQ(choose(1, row).path, Path::tiles) << "a single product";
  const MatmulPlan column = choose(1024, make_call(7168, 1, 8, column_major(7168), row_major(1), row_major(1)));
  EXPECT_EQ(column.path, Path::gemv);
  EXPECT_TRUE(column.d_transposed) << "its column is computed as a row";
  EXPECT_EQ(choose(1024, make_call(1, 4096, 1, row_major(1), row_major(4096), row_major(4096))).path, Path::gemv)
      << "one element along k";
  EXPECT_EQ(choose(1024, make_call(5, 7168, 8, row_major(8), row_major(7168), row_major(7168))).path, Path::tiles)
      << "too many rows";
}

// A block has up to 512 threads for one row. With 8 lines of B each thread has all of them in flight.
TEST(MatmulPlan, ThreadsOfGemvShareColumnsOrLines) {
  const auto divide = [](std::int64_t n, std::int64_t k, std::int64_t batch) {
    const GemvColumnThreads x = divide_gemv_threads({1, n, k}, batch, 8, 132);
    return std::array<std::int64_t, 3>{x.columns, x.lines, x.blocks_across};
  };
  EXPECT_EQ(divide(7168, 8, 1024), (std::array<std::int64_t, 3>{256, 1, 4})) << "896 loads of eight columns each";
  EXPECT_EQ(divide(128, 1024, 256), (std::array<std::int64_t, 3>{16, 16, 1})) << "16 loads leave threads to lines";
  EXPECT_EQ(divide(128, 4096, 64), (std::array<std::int64_t, 3>{8, 64, 2}))
      << "more blocks and threads, as there are few";
  EXPECT_EQ(divide(8, 2, 1), (std::array<std::int64_t, 3>{1, 32, 1})) << "no block is smaller than a warp";
}

// choose_plan() applies the correction only to plans that may become the fastest.
TEST(MatmulPlan, ChosenPlanIsTheFirstCandidate) {
  for (const auto [m, n, k] : {std::array{1, 57344, 8192},
                               {8, 240, 1216},
                               {1, 5840, 132},
                               {128, 3072, 2048},
                               {344, 1536, 17128},
                               {512, 2048, 8192},
                               {2816, 512, 182},
                               {4096, 4096, 4096}}) {
    const MatmulCall c = make_call(m, n, k, row_major(k), column_major(k), row_major(n));
    const MatmulPlan chosen = choose_plan(c, workspace, h200_numbers()),
                     first = list_candidates(c, workspace, h200_numbers(), 1).front();
    EXPECT_EQ(std::tuple(chosen.path, chosen.config, chosen.splits, chosen.split_mode, chosen.copy_a, chosen.copy_b),
              std::tuple(first.path, first.config, first.splits, first.split_mode, first.copy_a, first.copy_b))
        << m << " x " << n << " x " << k;
    EXPECT_EQ(chosen.predicted_s, first.predicted_s);
  }
}

// The vectorized epilogue accesses 16 bytes at 32-bit offsets, so operands must be aligned and small enough.
TEST(MatmulPlan, VectorEpilogueRequiresTypeAndAlignmentOfD) {
  const MatmulCall plain = make_call(64, 256, 128, row_major(128), column_major(128), row_major(256));
  const auto vector_epilogue = [&](const EpilogueOperand& bias, void* d = placeholder_pointer(3 << 20)) {
    MatmulCall c = plain;
    c.d = d;
    c.epilogue.bias = bias;
    return has_vector_epilogue(c);
  };
  void* const there = placeholder_pointer(4 << 20);
  EXPECT_TRUE(vector_epilogue({}));
  EXPECT_TRUE(vector_epilogue({there, DType::bf16, 0, 1, 0})) << "along the columns";
  EXPECT_TRUE(vector_epilogue({there, DType::bf16, 264, 1, 0})) << "a matrix";
  EXPECT_FALSE(vector_epilogue({placeholder_pointer((4 << 20) + 8), DType::bf16, 0, 1, 0}));
  EXPECT_FALSE(vector_epilogue({there, DType::f16, 0, 1, 0}));
  EXPECT_FALSE(vector_epilogue({there, DType::bf16, 1, 0, 0})) << "along the rows";
  EXPECT_FALSE(vector_epilogue({there, DType::bf16, 260, 1, 0}));
  EXPECT_TRUE(vector_epilogue({there, DType::f32, 0, 1, 0})) << "along the columns";
  EXPECT_TRUE(vector_epilogue({there, DType::f32, 260, 1, 0})) << "a matrix";
  EXPECT_FALSE(vector_epilogue({there, DType::f32, 258, 1, 0}));
  EXPECT_TRUE(vector_epilogue({placeholder_pointer((4 << 20) + 4), DType::f32, 1, 0, 0})) << "one for each row";
  EXPECT_TRUE(vector_epilogue({there, DType::f32, 0, 0, 0})) << "one for all";
  EXPECT_FALSE(vector_epilogue({there, DType::f32, std::int64_t{1} << 27, 0, 0}));
  EXPECT_FALSE(vector_epilogue({there, DType::bf16, std::int64_t{1} << 27, 1, 0}))
      << "64 of these lines are 2^33 elements";
  EXPECT_FALSE(vector_epilogue({}, placeholder_pointer((3 << 20) + 8)));
  MatmulCall turned = make_call(256, 64, 128, row_major(128), column_major(128), column_major(256));
  turned.epilogue.bias = {there, DType::bf16, 1, 0, 0};
  EXPECT_TRUE(has_vector_epilogue(turned)) << "along the rows, which are the columns of what is stored";
  MatmulCall narrow = make_call(64, 252, 128, row_major(128), column_major(128), row_major(256));
  EXPECT_FALSE(has_vector_epilogue(narrow));
}

// The copy engine can add to D only if nothing else is applied to the sums and rounding them is allowed.
TEST(MatmulPlan, RoundedSumsAreAddedOnlyWithoutOtherEpilogue) {
  MatmulCall c = make_call(64, 256, 128, row_major(128), column_major(128), row_major(256));
  const MatrixLayout d = c.problem.d;
  c.epilogue = {.addend = {c.d, d.dtype, d.row_stride, d.col_stride, d.batch_stride}, .may_round_sum = true};
  EXPECT_TRUE(adds_rounded_sum(c));
  const auto otherwise = [&](auto change) {
    MatmulCall other = c;
    change(other);
    return adds_rounded_sum(other);
  };
  EXPECT_FALSE(otherwise([](MatmulCall& x) { x.epilogue.may_round_sum = false; }));
  EXPECT_FALSE(otherwise([](MatmulCall& x) { x.epilogue.beta = 2; }));
  EXPECT_FALSE(otherwise([](MatmulCall& x) { x.epilogue.alpha = 0.5F; }));
  EXPECT_FALSE(otherwise([](MatmulCall& x) { x.epilogue.activation = EpilogueActivation::relu; }));
  EXPECT_FALSE(otherwise([](MatmulCall& x) { x.epilogue.bias = x.epilogue.addend; }));
  EXPECT_FALSE(otherwise([](MatmulCall& x) { x.epilogue.addend.data = x.a; })) << "another matrix";
  EXPECT_FALSE(otherwise([](MatmulCall& x) { x.epilogue.addend.dtype = DType::f32; }));
  EXPECT_FALSE(otherwise([](MatmulCall& x) { x.epilogue.addend.row_stride = 0; })) << "its first row to all";
  EXPECT_FALSE(otherwise([](MatmulCall& x) {
    x.problem.batch = 2;
    x.problem.d.batch_stride = 64 * 256;
  })) << "the first product to all";
}

// D with contiguous columns is computed transposed, so the kernel would prefetch A, which an earlier kernel may write.
TEST(MatmulPlan, TransposedDPrefetchesNothing) {
  MatmulCall c = make_call(4096, 8, 4096, row_major(4096), column_major(4096), column_major(4096));
  c.constant_b = true;
  EXPECT_TRUE(choose_plan(c, workspace, h200_numbers()).d_transposed);
  EXPECT_FALSE(choose_plan(c, workspace, h200_numbers()).prefetch_constants);
}

// The copy of A starts after all earlier kernels have ended, so B may be prefetched even if one of them wrote it.
TEST(MatmulPlan, OtherOperandIsPrefetchedDuringACopy) {
  const MatmulCall a = make_call(9, 4096, 4096, column_major(9), row_major(4096), row_major(4096));
  const MatmulPlan under = fastest_plan_of_tiles(a);
  EXPECT_TRUE(under.copy_a && under.transpose_a && !under.copy_b);
  EXPECT_TRUE(under.prefetch_constants);
  const MatmulCall both = make_call(9, 4097, 4096, column_major(9), row_major(4097), row_major(4097));
  EXPECT_TRUE(fastest_plan_of_tiles(both).copy_b);
  EXPECT_FALSE(fastest_plan_of_tiles(both).prefetch_constants);
}

TEST(MatmulPlan, TilesAndBlocksFillWholeClusters) {
  const MatmulCall c = make_call(200, 1000, 4096, row_major(4096), column_major(4096), row_major(1000));
  int clustered = 0;
  for (int config = 0; config < static_cast<int>(sm90_kernel_configs.size()); ++config) {
    const MatmulConfig& shape = sm90_kernel_configs[config];
    if (shape.cluster() == 1) continue;
    EXPECT_FALSE(make_plan(c, workspace, h200_numbers(), {config, {1, SplitMode::stream_k}}));
    EXPECT_FALSE(make_plan(c, workspace, h200_numbers(), {config, {2, SplitMode::cluster_split_k}}));
    for (const int splits : {1, 3}) {
      const auto plan = make_plan(c, workspace, h200_numbers(), {config, {splits, SplitMode::split_k}});
      if (!plan) continue;
      ++clustered;
      EXPECT_EQ(plan->tiles % shape.cluster(), 0);
      EXPECT_EQ(plan->blocks % shape.cluster(), 0);
      EXPECT_LE(plan->blocks, 132);
      EXPECT_GE(plan->tiles * shape.m * shape.n, 200 * 1000);
    }
  }
  EXPECT_GT(clustered, 10);
}

}  // namespace
}  // namespace ridge::ops::cuda

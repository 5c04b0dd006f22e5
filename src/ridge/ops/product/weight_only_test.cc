// Tests which products with narrow weights a device supports, and the plans that are chosen.
#include <gtest/gtest.h>

#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/model.h"
#include "ridge/ops/product/time/plan_properties.h"
#include "ridge/ops/product/weight_only/weight_only.h"
#include "ridge/plan/testing/hopper.h"

namespace ridge::ops::cuda {
namespace {

constexpr DType narrow_dtypes[] = {DType::int8,  DType::e4m3,    DType::mxfp8,   DType::mxfp4,
                                   DType::nvfp4, DType::int4_32, DType::int4_64, DType::int4_128,
                                   DType::u4_32, DType::u4_64,   DType::u4_128};

MatmulCall make_call(DType weights, ProductSize size, DType x = DType::bf16) {
  MatmulCall c;
  c.problem = {1, size, {x, size.k, 1, 0}, {weights, 1, size.k, 0}, {x, size.n, 1, 0}};
  c.a = c.b = reinterpret_cast<const void*>(std::uintptr_t{1} << 20);
  c.d = reinterpret_cast<void*>(std::uintptr_t{2} << 20);
  return c;
}

TEST(WeightOnlyPlan, ReadsFewRowsOfEveryDtypeInOneWave) {
  for (const DType weights : narrow_dtypes)
    for (const std::int64_t rows : {1, 5, 16, 33, 64}) {
      const MatmulCall c = make_call(weights, {rows, 8192, 8192});
      ASSERT_FALSE(unsupported_reason(c)) << unsupported_reason(c).text();
      const MatmulPlan plan = choose_plan(c, 0, h200_numbers());
      EXPECT_EQ(plan.path, MatmulPlan::Path::weight_only);
      EXPECT_EQ(plan.workspace_bytes, 0u);
      const int resident = weight_only_block(count_columns(rows)).resident_blocks;
      EXPECT_GE(plan.blocks, 96 * resident) << dtype_name(weights) << " " << rows;
      EXPECT_LE(plan.blocks, 132 * resident);
      const double memory_s = min_product_bytes(c.problem) / h200_numbers().memory_bytes_per_s;
      EXPECT_GT(plan.predicted_s, memory_s);
      if (rows <= 16)  // Four bits are limited by their conversion
        EXPECT_LT(plan.predicted_s, (dtype_bits(weights) == 4 ? 4 : 2) * memory_s)
            << dtype_name(weights) << " " << rows;
    }
}

TEST(WeightOnlyPlan, FitsSharedMemoryAndRegistersOfEveryTile) {
  for (const DType weights : narrow_dtypes)
    for (const int rows : {8, 16, 32, 64})
      for (const MatmulPlan& plan : list_weight_only_plans(make_call(weights, {rows, 4096, 4096}), h200_numbers())) {
        const WeightOnlyTile tile = weight_only_tiles[plan.config];
        const WeightBox box = weight_box(weights);
        const WeightOnlyBlock block = weight_only_block(rows);
        const int stages = tile.count_stages(box, rows);
        EXPECT_GE(stages, min_stages);
        EXPECT_LE(stages * tile.stage_bytes(box, rows) + tile.sum_bytes(rows) + WeightOnlyTile::barrier_bytes,
                  block.shared_bytes);
        EXPECT_LE(block.resident_blocks * (block.shared_bytes + 1024), 228 * 1024);
        EXPECT_LE(stages * 16, WeightOnlyTile::barrier_bytes);
      }
}

// Two blocks of 16 columns share a multiprocessor, one of 64 has all of it.
TEST(WeightOnlyPlan, FillsTheMultiprocessors) {
  const MatmulPlan few = choose_plan(make_call(DType::int4_128, {1, 8192, 8192}), 0, h200_numbers());
  EXPECT_EQ(few.tiles * few.splits, few.blocks);
  EXPECT_GT(few.blocks, 132);
  EXPECT_LE(few.blocks, 264);
  EXPECT_LE(choose_plan(make_call(DType::int8, {64, 28672, 8192}), 0, h200_numbers()).blocks, 132);
  const auto find_longest = [](std::int64_t rows) {
    int lines = 0;
    for (const MatmulPlan& plan : list_weight_only_plans(make_call(DType::int8, {rows, 28672, 8192}), h200_numbers()))
      lines = std::max(lines, weight_only_tiles[plan.config].lines);
    return lines;
  };
  EXPECT_EQ(find_longest(16), 128);
  EXPECT_EQ(find_longest(64), 256);
}

TEST(WeightOnlyPlan, SplitsShortProductsAmongClusters) {
  const MatmulPlan plan = choose_plan(make_call(DType::int8, {1, 1024, 16384}), 0, h200_numbers());
  EXPECT_GT(plan.splits, 1);
  EXPECT_EQ(plan.split_mode, tile::SplitMode::cluster_split_k);
  EXPECT_EQ(plan.blocks, plan.tiles * plan.splits);
  EXPECT_EQ(choose_plan(make_call(DType::int8, {1, 100000, 4096}), 0, h200_numbers()).splits, 1);
}

TEST(WeightOnlyPlan, RefusesOtherProducts) {
  const auto reason = [](const MatmulProblem& p) { return unsupported_reason(p).text(); };
  MatmulProblem p = make_call(DType::int8, {65, 256, 512}).problem;
  EXPECT_EQ(reason(p), "expected up to 64 rows with int8, found 65");
  EXPECT_EQ(reason(make_call(DType::mxfp4, {4, 256, 512}, DType::f16).problem),
            "a: expected bf16 with mxfp4, found f16");
  EXPECT_EQ(reason(make_call(DType::mxfp4, {4, 256, 48}).problem),
            "mxfp4: expected k in multiples of 32 elements, found 48");
  p = make_call(DType::u4_64, {4, 256, 512}).problem;
  p.b.col_stride = 576;
  EXPECT_EQ(reason(p), "u4_64: expected lines of 512 elements without gaps, found strides of 576 and 0 elements");
  p = make_call(DType::e4m3, {4, 256, 512}).problem;
  p.b = {DType::e4m3, 256, 1, 0};
  EXPECT_EQ(reason(p), "e4m3: expected elements that are contiguous along k, found a stride of 256");
  p = make_call(DType::int8, {4, 256, 512}).problem;
  p.grouped = true;
  EXPECT_EQ(reason(p), "b: expected 16-bit floats for windows or groups, found int8");
  p = make_call(DType::int8, {4, 256, 512}, DType::f32).problem;
  EXPECT_NE(reason(p).find("expected two operands of the same dtype"), std::string::npos);
  p = make_call(DType::int8, {4, 256, 512}).problem;
  p.d.dtype = DType::int8;
  EXPECT_NE(reason(p).find("a result of f32, bf16 or f16"), std::string::npos);
}

TEST(WeightOnlyPlan, ConvertsLinesThatTheCopyEngineCannotLoad) {
  EXPECT_FALSE(reason_to_convert_weights(make_call(DType::mxfp4, {4, 256, 512}).problem));
  EXPECT_FALSE(reason_to_convert_weights(make_call(DType::mxfp4, {64, 256, 128}).problem));
  EXPECT_EQ(reason_to_convert_weights(make_call(DType::nvfp4, {4, 256, 144}).problem).text(),
            "nvfp4: expected k in multiples of 32 elements, found 144");
  EXPECT_EQ(reason_to_convert_weights(make_call(DType::int8, {4, 256, 500}).problem).text(),
            "int8: expected lines and matrices at multiples of 16 bytes, found strides of 500 and 0 bytes");
  EXPECT_EQ(reason_to_convert_weights(make_call(DType::mxfp4, {4, 256, 2880}).problem).text(),
            "mxfp4: expected a multiple of 4 bytes of scales for each line, found 90");
  EXPECT_FALSE(unsupported_reason(make_call(DType::int8, {4, 256, 500})));  // The kernel itself loads any line
  EXPECT_FALSE(reason_to_convert_weights(transpose_problem(make_call(DType::nvfp4, {4, 256, 512}).problem)));
}

TEST(WeightOnlyPlan, ForecastsTheBytesOfTheWeights) {
  const auto forecast = ops::forecast(make_call(DType::mxfp4, {1, 8192, 8192}).problem, h200_numbers());
  ASSERT_TRUE(forecast.ok());
  EXPECT_EQ(forecast->plan.kernel.find("sm90_weight_only_"), 0u) << forecast->plan.kernel;
  EXPECT_EQ(forecast->count_bytes().memory_bytes, 8192 * 8192 / 32 * 17 + 2 * (8192 + 8192));
}

}  // namespace
}  // namespace ridge::ops::cuda

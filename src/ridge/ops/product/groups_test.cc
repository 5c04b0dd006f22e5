// Tests validation of groups on all targets, plans on a device, and the traffic of tiles.
#include "ridge/ops/product/groups.h"

#include <gtest/gtest.h>

#include <vector>

#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/model.h"
#include "ridge/ops/product/operands.h"
#include "ridge/ops/product/testing/matmul_case.h"
#include "ridge/ops/product/trace.h"
#include "ridge/plan/testing/hopper.h"

namespace ridge::ops {
namespace {

MatmulProblem grouped_problem(std::int64_t groups, std::int64_t m, std::int64_t n, std::int64_t k,
                              DType dtype = DType::bf16) {
  return {groups, m, n, k, {dtype, k, 1}, {dtype, 1, k, n * k}, {dtype, n, 1}, true};
}

TEST(Groups, InvalidProblemsAreRejectedWithReason) {
  MatmulProblem p = grouped_problem(3, 10, 4, 8);
  EXPECT_FALSE(validate_groups(p));
  p.a.batch_stride = 80;
  EXPECT_EQ(unsupported_reason(p).text(), "a: expected a batch stride of 0 for grouped rows of one matrix, found 80");
  EXPECT_EQ(cuda::unsupported_reason(p).text(), unsupported_reason(p).text());
  p = grouped_problem(3, 10, 4, 8);
  p.d.batch_stride = 40;
  EXPECT_EQ(unsupported_reason(p).text(), "d: expected a batch stride of 0 for grouped rows of one matrix, found 40");
  p.d = {DType::bf16, 1, 10};
  EXPECT_EQ(cuda::unsupported_reason(p).text(),
            "d: expected contiguous rows for grouped rows, found contiguous columns");
  EXPECT_EQ(unsupported_reason(p).text(), cuda::unsupported_reason(p).text());
  p = grouped_problem(3, std::int64_t{1} << 31, 4, 8);
  EXPECT_EQ(cuda::unsupported_reason(p).text(),
            "expected at most 2147483647 grouped rows and fewer groups, found 2147483648 and 3");
}

TEST(Groups, ReadableStartsAreValidated) {
  MatmulCall call{.problem = grouped_problem(3, 10, 4, 8)};
  EXPECT_EQ(validate_group_starts(call).text(),
            "starts: expected a number for each group and one more, found a null pointer");
  const auto said = [&](std::vector<std::int32_t> starts) {
    call.starts = starts.data();
    const Reason reason = validate_group_starts(call);
    return reason ? reason.text() : "";
  };
  EXPECT_EQ(said({0, 4, 4, 10}), "");
  EXPECT_EQ(said({2, 4, 4, 9}), "");
  EXPECT_EQ(said({-1, 4, 4, 10}), "starts: expected number 0 in 0 … 10, found -1");
  EXPECT_EQ(said({0, 4, 3, 10}), "starts: expected number 2 in 4 … 10, found 3");
  EXPECT_EQ(said({0, 4, 4, 11}), "starts: expected number 3 in 4 … 10, found 11");
}

TEST(Groups, ExtractedGroupIsASeparateProduct) {
  MatmulCall call{.problem = grouped_problem(2, 10, 4, 8, DType::f32)};
  const std::vector<float> data(100);
  const std::vector<std::int32_t> starts{1, 3, 10};
  call.starts = starts.data();
  call.a = call.b = data.data();
  call.epilogue.bias = {data.data(), DType::bf16, 0, 1, 4};
  const MatmulCall second = extract_group(call, 1);
  EXPECT_EQ(second.problem.size.m, 7);
  EXPECT_EQ(second.problem.batch, 1);
  EXPECT_FALSE(second.problem.grouped);
  EXPECT_EQ(second.a, data.data() + 3 * 8);
  EXPECT_EQ(second.b, data.data() + 4 * 8);
  EXPECT_EQ(second.epilogue.bias.data, data.data() + 2);  // Four elements of two bytes
  EXPECT_EQ(second.epilogue.scale.data, nullptr);
}

TEST(Groups, StartsOfUngroupedProductsAreIgnored) {
  const std::vector<std::int32_t> starts{5, 3, 99};
  MatmulCall call{.problem = grouped_problem(2, 10, 4, 8), .starts = starts.data()};
  EXPECT_EQ(cuda::make_tile_problem(call).starts, starts.data());
  call.problem.grouped = false;
  EXPECT_EQ(cuda::make_tile_problem(call).starts, nullptr);
  EXPECT_FALSE(validate_group_starts(call));
}

// Short groups use swapped, narrow tiles and long groups tall tiles. There are at most as many blocks as tiles, and no
// prefetch, because an earlier kernel may write the starts of groups.
TEST(Groups, PlansUseGroupedConfigs) {
  for (const auto& [groups, m] : {std::pair<int, int>{64, 64}, {8, 8192}, {256, 100}, {1, 1}})
    for (const bool along_n : {false, true}) {
      MatmulCall call{.problem = grouped_problem(groups, m, 2048, 1024), .constant_b = true};
      if (along_n) call.problem.b = {DType::bf16, 2048, 1, 2048 * 1024};
      const cuda::MatmulPlan plan = cuda::choose_plan(call, std::size_t{64} << 20, h200_numbers());
      ASSERT_EQ(plan.path, cuda::MatmulPlan::Path::tiles) << groups << " " << m;
      const MatmulConfig& c = sm90_kernel_configs[plan.config];
      EXPECT_TRUE(c.grouped);
      EXPECT_EQ(c.swap, m <= 16 * groups) << groups << " " << m;
      EXPECT_FALSE(plan.prefetch_constants);
      EXPECT_EQ(plan.splits, 1);
      EXPECT_LE(plan.blocks, 132);
      EXPECT_GE(plan.blocks, std::min(132, 2048 / 256));
      EXPECT_GT(plan.predicted_s, 0);
    }
  const MatmulCall alone{.problem = {1, 64, 64, 64, {DType::bf16, 64, 1}, {DType::bf16, 1, 64}, {DType::bf16, 64, 1}}};
  for (int config = 0; config < static_cast<int>(sm90_kernel_configs.size()); ++config) {
    if (!sm90_kernel_configs[config].grouped) continue;
    EXPECT_FALSE(cuda::make_plan(alone, std::size_t{64} << 20, h200_numbers(), {config}));
  }
}

// Groups of 200, 0 and 130 rows have 2, 0 and 2 rows of tiles. D is written once; B of the empty group is not read.
TEST(Groups, TilesMoveOnlyTheRowsOfTheirGroups) {
  const std::vector<std::int32_t> starts{0, 200, 200, 330};
  const MatmulTraffic t = count_tile_traffic(grouped_problem(3, 330, 300, 100), {.blocks = 3, .starts = starts.data()});
  EXPECT_EQ(t.items, 4 * 3);
  EXPECT_EQ(t.d.global_bytes, 330 * 300 * 2);
  EXPECT_EQ(t.b.global_bytes, 4 * 300 * 100 * 2);
  // Boxes of 128 rows of A start at rows 0, 128, 200 and 328; they end at row 330, not at the end of a group.
  EXPECT_EQ(t.a.global_bytes, 3 * (128 + 128 + 128 + 2) * 100 * 2);
}

TEST(Groups, TimelineHasMoreEventsForMoreTiles) {
  for (int config = 0; config < static_cast<int>(sm90_kernel_configs.size()); ++config) {
    const MatmulConfig& c = sm90_kernel_configs[config];
    if (!c.grouped || c.a != tile::Major::k || c.b != tile::Major::k) continue;
    const Timeline alone = matmul_timeline(config, 1, 4, 1e9), three = matmul_timeline(config, 3, 4, 1e9);
    EXPECT_GT(alone.events.size(), 0U) << config;
    EXPECT_GT(three.events.size(), alone.events.size()) << config;
  }
}

TEST(Groups, ManyShortGroupsAreCorrectOnSeveralThreads) {
  product_testing::MatmulCase c;
  c.call.problem = grouped_problem(40, 100, 20, 30, DType::f32);
  c.threads = 3;
  c.runs = 4;
  for (int i = 0; i <= 40; ++i) c.starts.push_back(i * i / 16);
  EXPECT_EQ(product_testing::check_case(c), "");
}

}  // namespace
}  // namespace ridge::ops

// Tests the time of epilogues with constants that make it a whole number of cycles.
#include <gtest/gtest.h>

#include <cmath>

#include "ridge/ops/fitted.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/product/time/epilogue_seconds.h"

namespace ridge::ops::cuda {
namespace {

// Plans use addresses but never dereference them.
void* placeholder_pointer() { return reinterpret_cast<void*>(std::uintptr_t{1} << 20); }

MatmulCall make_call(std::int64_t m, std::int64_t n, std::int64_t k) {
  MatmulCall c;
  c.problem = {1, {m, n, k}, {DType::bf16, k, 1, 0}, {DType::bf16, 1, k, 0}, {DType::bf16, n, 1, 0}};
  c.a = c.b = c.d = placeholder_pointer();
  return c;
}
EpilogueOperand vector_operand(DType dtype = DType::bf16) { return {placeholder_pointer(), dtype, 0, 1, 0}; }

MatmulPlan make_tile_plan(std::string_view config, std::int64_t tiles, int blocks) {
  MatmulPlan plan{.path = MatmulPlan::Path::tiles, .tiles = tiles};
  plan.blocks = blocks;
  for (int i = 0; i < static_cast<int>(sm90_kernel_configs.size()); ++i)
    if (config_name(i) == config) plan.config = i;
  EXPECT_GE(plan.config, 0) << config;
  return plan;
}

class EpilogueSeconds : public testing::Test {
 protected:
  static KernelConstants make_constants() {
    KernelConstants out = kernel_constants();
    out.epilogue_step_cycles = 500;
    out.epilogue_vector_cycles = 100;
    out.epilogue_matrix_cycles = 600;
    out.epilogue_hidden_share = 0.5;
    return out;
  }
  std::int64_t count_cycles(const MatmulCall& call, const MatmulPlan& plan) const {
    return std::llround(predict_epilogue_seconds(call, plan, device_) * device_.clock_hz);
  }
  const DeviceNumbers device_{.multiprocessors = 132, .clock_hz = 1e9, .memory_bytes_per_s = 1e9};
  const KernelConstants constants_ = make_constants();
  const KernelConstantsOverride override_{constants_};
};

TEST_F(EpilogueSeconds, EachWarpgroupTakesStepsForEachOfItsTiles) {
  const MatmulPlan plan =
      make_tile_plan("sm90_128x256x64_cooperative", 512, 132);  // 16 steps of each of two warpgroups
  MatmulCall c = make_call(4096, 4096, 64);
  EXPECT_EQ(count_cycles(c, plan), 0) << "the product's time includes stores";
  c.epilogue.activation = EpilogueActivation::relu;
  EXPECT_EQ(count_cycles(c, plan), 4 * 16 * 500);
  c.epilogue.scale = c.epilogue.bias = vector_operand();
  EXPECT_EQ(count_cycles(c, plan), 4 * 16 * (500 + 2 * 100));
  c.epilogue.addend = {placeholder_pointer(), DType::bf16, 4096, 1, 0};
  EXPECT_EQ(count_cycles(c, plan), 4 * 16 * (500 + 2 * 100 + 600));
  c.epilogue.activation = EpilogueActivation::gelu;
  EXPECT_EQ(count_cycles(c, plan), 4 * 16 * (500 + 2 * 100 + 600 + 8 * (19 + 2 * 7)));
}

TEST_F(EpilogueSeconds, PingpongHidesAPartOfTheShorterOfEpilogueAndProducts) {
  // Three of six tiles for each warpgroup, 2 * 11 steps each; a tile multiplies for 176 * 4 cycles per 64 of k.
  const MatmulPlan plan = make_tile_plan("sm90_128x176x64_pingpong", 768, 132);
  for (const auto& [k, hidden] : {std::pair{60, 704}, {256, 4 * 704}, {8192, 22 * 500}}) {
    MatmulCall c = make_call(4096, 4096, k);
    c.epilogue.activation = EpilogueActivation::relu;
    EXPECT_EQ(count_cycles(c, plan), 3 * (22 * 500 - hidden / 2)) << k;
  }
}

TEST_F(EpilogueSeconds, SplitsThatWaitForEachOtherDivideTheSteps) {
  MatmulPlan plan = make_tile_plan("sm90_128x128x64_pingpong", 30, 120);
  MatmulCall c = make_call(640, 768, 0);
  c.epilogue.activation = EpilogueActivation::relu;
  EXPECT_EQ(count_cycles(c, plan), 16 * 500);
  plan.splits = 3;
  plan.split_mode = tile::SplitMode::cooperative_split_k;
  EXPECT_EQ(count_cycles(c, plan), 6 * 500);
}

TEST_F(EpilogueSeconds, EpiloguesWithoutTimingsOnlyReadTheirOperands) {
  const MatmulPlan tiles = make_tile_plan("sm90_128x256x64_cooperative", 512, 132);
  MatmulCall c = make_call(4096, 4096, 64);
  c.epilogue.bias = vector_operand(DType::f16);
  EXPECT_EQ(count_cycles(c, tiles), 4096 * 2) << "not vectorized";
  c.epilogue.bias = vector_operand();
  EXPECT_EQ(count_cycles(c, {.path = MatmulPlan::Path::plain}), 4096 * 2);
}

}  // namespace
}  // namespace ridge::ops::cuda

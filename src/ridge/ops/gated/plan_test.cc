#include <gtest/gtest.h>

#include "ridge/ops/gated/config.h"
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/gated/gradient.h"
#include "ridge/plan/testing/hopper.h"

namespace ridge::ops::cuda {
namespace {

using Path = GatedPlan::Path;

// Plans use addresses but never dereference them.
void* placeholder_pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

GatedCall make_call(std::int64_t n, std::int64_t f, std::int64_t d) {
  GatedLayer layer{.n = n, .f = f, .d = d, .x = placeholder_pointer(4096), .y = placeholder_pointer(8192)};
  layer.up = placeholder_pointer(1 << 20);
  layer.gate = placeholder_pointer(2 << 20);
  return make_gated_call(layer);
}

TEST(GatedPlan, AlignedOperandsAreNotCopied) {
  const GatedPlan plan = choose_plan(make_call(8192, 4096, 1024), 0, h200_numbers());
  EXPECT_EQ(plan.path, Path::tiles);
  EXPECT_FALSE(plan.copy_x || plan.copy_up || plan.copy_gate);
  EXPECT_EQ(plan.workspace_bytes, 0u);
  const MatmulConfig& c = sm90_gated_kernel_configs[plan.config];
  EXPECT_EQ(plan.tiles, 8192 / c.m * ((2 * 4096 + c.n - 1) / c.n));
  EXPECT_EQ(plan.blocks, 132);
}

TEST(GatedPlan, WeightsContiguousAlongNUseMatchingConfigs) {
  GatedCall c = make_call(4096, 1000, 1024);
  c.weights = tile::Major::mn;
  c.weight_line_stride = 1000;
  EXPECT_FALSE(unsupported_reason(c));
  const GatedPlan plan = choose_plan(c, std::size_t{64} << 20, h200_numbers());
  EXPECT_EQ(plan.path, Path::tiles);
  EXPECT_EQ(sm90_gated_kernel_configs[plan.config].b, tile::Major::mn);
  EXPECT_FALSE(plan.copy_up || plan.copy_gate);
  EXPECT_EQ(sm90_gated_kernel_configs[choose_plan(make_call(4096, 1000, 1024), 0, h200_numbers()).config].b,
            tile::Major::k);
  c.weight_line_stride = 999;
  EXPECT_EQ(unsupported_reason(c).text(),
            "weights: expected a stride of at least 1000, found 999: its rows would overlap");
}

TEST(GatedPlan, UnalignedOperandsAreCopiedOrUsePlainKernel) {
  GatedCall odd = make_call(512, 512, 511);
  const GatedPlan plan = choose_plan(odd, std::size_t{64} << 20, h200_numbers());
  EXPECT_EQ(plan.path, Path::tiles);
  EXPECT_TRUE(plan.copy_x && plan.copy_up && plan.copy_gate);
  EXPECT_GE(plan.workspace_bytes, 3u * 512 * 511 * 2);
  EXPECT_NE(choose_plan(odd, plan.workspace_bytes - 1, h200_numbers()).path, Path::tiles);
  odd.x_row_stride = 512;
  EXPECT_FALSE(choose_plan(odd, std::size_t{64} << 20, h200_numbers()).copy_x);
}

TEST(GatedPlan, CallsWithoutTileKernelUsePlainKernel) {
  EXPECT_EQ(choose_plan(make_call(128, 128, 0), 0, h200_numbers()).path, Path::plain);
  GatedCall wide = make_call(128, 128, 128);
  wide.dtype = DType::f32;
  EXPECT_EQ(choose_plan(wide, 0, h200_numbers()).path, Path::plain);
  EXPECT_EQ(choose_plan(make_call(0, 128, 128), 0, h200_numbers()).path, Path::nothing);
  EXPECT_EQ(choose_plan(make_call(128, 0, 128), 0, h200_numbers()).path, Path::nothing);
}

TEST(GatedPlan, InvalidCallsAreRejected) {
  const auto why = [](auto change) {
    GatedCall c = make_call(64, 32, 16);
    change(c);
    const Reason reason = unsupported_reason(c);
    return reason ? reason.text() : "";
  };
  EXPECT_EQ(why([](GatedCall&) {}), "");
  EXPECT_EQ(why([](GatedCall& c) { c.size.m = -1; }), "expected sizes of at least 0, found n -1, f 32, d 16");
  EXPECT_EQ(why([](GatedCall& c) { c.dtype = DType::int8; }),
            "expected bf16, f16 or f32, found int8 -> bf16 with biases in bf16");
  EXPECT_EQ(why([](GatedCall& c) { c.y_row_stride = 31; }),
            "y: expected a stride of at least 32, found 31: its rows would overlap");
  EXPECT_EQ(why([](GatedCall& c) {
              c.h = placeholder_pointer(4096);
              c.h_row_stride = 63;
            }),
            "h: expected a stride of at least 64, found 63: its rows would overlap");
  EXPECT_EQ(why([](GatedCall& c) { c.y = nullptr; }), "y: expected device memory, found a null pointer");
  EXPECT_EQ(why([](GatedCall& c) {
              c.y = nullptr;
              c.y_row_stride = 0;
              c.h = placeholder_pointer(4096);
            }),
            "");
  EXPECT_EQ(why([](GatedCall& c) { c.gate = nullptr; }), "gate: expected device memory, found a null pointer");
  EXPECT_EQ(why([](GatedCall& c) { c.bg = placeholder_pointer(4097); }),
            "bg: expected a pointer to whole bf16 elements, found one that is not a multiple of 2 bytes");
}

TEST(GateGradientCall, InvalidCallsAreRejected) {
  GateGradientCall c{.m = 130,
                     .n = 8,
                     .dy = placeholder_pointer(4096),
                     .h = placeholder_pointer(8192),
                     .dh = placeholder_pointer(8192)};
  c.dy_row_stride = 8;
  c.h_row_stride = c.dh_row_stride = 16;
  EXPECT_FALSE(unsupported_reason(c));
  EXPECT_EQ(needed_workspace_bytes(c), 0u);
  c.dbg = placeholder_pointer(4096);
  EXPECT_EQ(needed_workspace_bytes(c), device::counter_bytes + 2 * 2 * 8 * 4);
  c.dh_row_stride = 15;
  EXPECT_EQ(unsupported_reason(c).text(), "dh: expected a stride of at least 16, found 15: its rows would overlap");
  c.dtype = DType::f32;
  EXPECT_EQ(unsupported_reason(c).text(), "expected bf16 or f16, found f32");
}

}  // namespace
}  // namespace ridge::ops::cuda

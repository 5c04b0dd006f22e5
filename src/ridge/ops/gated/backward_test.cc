#include "ridge/ops/gated/backward.h"

#include <gtest/gtest.h>

#include "ridge/ops/gated/backward_steps.h"
#include "ridge/plan/testing/hopper.h"

namespace ridge::ops::cuda {
namespace {

constexpr std::size_t megabyte = 1000000;

// Plans use addresses but never dereference them.
char* placeholder_pointer(std::uintptr_t address) { return reinterpret_cast<char*>(address); }

// Returns a call with both weights in one matrix, as in PyTorch.
GatedBackward make_backward_call(std::int64_t n, std::int64_t f, std::int64_t d) {
  GatedLayer layer{.n = n, .f = f, .d = d, .x = placeholder_pointer(1 << 20)};
  layer.up = placeholder_pointer(std::uintptr_t{1} << 32);
  layer.gate = placeholder_pointer((std::uintptr_t{1} << 32) + f * d * 2);
  layer.bu = placeholder_pointer(8192);
  layer.bg = placeholder_pointer(8192 + f * 2);
  return make_gated_backward_call(layer, placeholder_pointer(2 << 20), placeholder_pointer(3 << 20),
                                  placeholder_pointer(std::uintptr_t{1} << 33), placeholder_pointer(4096));
}
GatedBackward with_kept_h(GatedBackward c) {
  c.h = placeholder_pointer(std::uintptr_t{1} << 34);
  return c;
}

TEST(GatedBackward, KeptHUsesOneWeightProductAndOneInputKernel) {
  const GatedBackward c = with_kept_h(make_backward_call(4096, 16384, 4096));
  const GatedBackwardPlan plan = choose_plan(c, 8 * megabyte, h200_numbers());
  EXPECT_EQ(plan.chunk, 16384);
  EXPECT_TRUE(plan.each.dx.has_value());
  EXPECT_EQ(plan.each.dw_products.size(), 1u);
  EXPECT_EQ(plan.workspace_bytes, device::counter_bytes + 4096 / 128 * 2 * 16384 * 4);  // The column sums
  const BackwardSteps steps = make_backward_steps(c, 0, c.size.n, nullptr);
  ASSERT_EQ(steps.dw_products.size(), 1u);
  EXPECT_EQ(steps.dw_products[0].problem.size.m, 2 * 16384);
  EXPECT_EQ(steps.dw_products[0].problem.batch, 1);
  EXPECT_FALSE(steps.dx.add);
}

TEST(GatedBackward, SeparateDhLeavesHUnchanged) {
  GatedBackward c = with_kept_h(make_backward_call(4096, 16384, 4096));
  c.dh = placeholder_pointer(std::uintptr_t{1} << 35);
  const BackwardSteps steps = make_backward_steps(c, 0, c.size.n, nullptr);
  EXPECT_EQ(steps.gate.h, c.h);
  EXPECT_EQ(steps.gate.dh, c.dh);
  EXPECT_EQ(steps.dx.du, c.dh);
  EXPECT_EQ(steps.dx.dg, static_cast<char*>(c.dh) + 2 * c.size.n);
  ASSERT_EQ(steps.dw_products.size(), 1u);
  EXPECT_EQ(steps.dw_products[0].a, c.dh);
  EXPECT_EQ(steps.dx_products[0].a, c.dh);
  EXPECT_EQ(make_backward_steps(with_kept_h(make_backward_call(64, 64, 64)), 0, 64, nullptr).gate.dh, with_kept_h(c).h);
}

TEST(GatedBackward, RecomputedHUsesChunksThatFit) {
  const GatedBackward c = make_backward_call(4096, 32768, 8192);
  for (const std::size_t bytes : {70 * megabyte, 100 * megabyte, 161 * megabyte, 1000 * megabyte}) {
    const GatedBackwardPlan plan = choose_plan(c, bytes, h200_numbers());
    EXPECT_LE(plan.workspace_bytes, bytes);
    EXPECT_GE(plan.workspace_bytes, static_cast<std::size_t>(4 * 4096 * plan.chunk));
    EXPECT_LT(plan.workspace_bytes, static_cast<std::size_t>(4 * 4096 * plan.chunk) + 5 * megabyte);
    EXPECT_LE((c.size.n + plan.chunk - 1) / plan.chunk, GatedBackward::max_chunks);
    EXPECT_EQ(plan.chunk % 64, 0);
  }
}

TEST(GatedBackward, LargerWorkspacesAreNeverSlowerAndRecomputingCostsAThirdMore) {
  const GatedBackward c = make_backward_call(4096, 16384, 4096);
  double before = 1;
  for (const std::size_t bytes : {36 * megabyte, 60 * megabyte, 100 * megabyte, 300 * megabyte}) {
    const double s = choose_plan(c, bytes, h200_numbers()).predicted_s;
    EXPECT_LE(s, before * 1.01);
    before = s;
  }
  const double kept = choose_plan(with_kept_h(c), 300 * megabyte, h200_numbers()).predicted_s;
  EXPECT_GT(before, 1.3 * kept);
  EXPECT_LT(before, 1.6 * kept);
}

TEST(GatedBackward, FirstChunkStoresDxAndLaterChunksAdd) {
  const GatedBackward c = make_backward_call(512, 1000, 64);
  const BackwardSteps first = make_backward_steps(c, 0, 512, placeholder_pointer(1 << 30)),
                      last = make_backward_steps(c, 512, 488, placeholder_pointer(1 << 30));
  EXPECT_FALSE(first.dx.add);
  EXPECT_TRUE(last.dx.add);
  EXPECT_EQ(first.dx_products[0].epilogue.addend.data, nullptr);
  EXPECT_EQ(first.dx_products[1].epilogue.addend.data, c.dx);
  EXPECT_EQ(last.dx_products[0].epilogue.addend.data, c.dx);
  EXPECT_EQ(last.recompute.size.n, 488);
  EXPECT_EQ(last.recompute.h_row_stride, 2 * 488);
  EXPECT_EQ(last.recompute.up, static_cast<const char*>(c.up) + 512 * 64 * 2);
  EXPECT_EQ(last.recompute.bg, static_cast<const char*>(c.bg) + 512 * 2);
  EXPECT_EQ(last.gate.dy, static_cast<const char*>(c.dy) + 512 * 2);
  EXPECT_EQ(last.gate.dbg, static_cast<char*>(c.dbg) + 512 * 2);
  EXPECT_EQ(last.gate.dh, last.recompute.h);
  ASSERT_EQ(last.dw_products.size(), 1u);  // One product for both halves
  EXPECT_EQ(last.dw_products[0].problem.batch, 2);
  EXPECT_EQ(last.dw_products[0].problem.a.batch_stride, 488);
  EXPECT_EQ(last.dw_products[0].problem.d.batch_stride, 1000 * 64);
  EXPECT_EQ(last.dw_products[0].d, static_cast<char*>(c.dup) + 512 * 64 * 2);
}

TEST(GatedBackward, NonAdjacentWeightGradientsUseTwoProducts) {
  GatedBackward c = with_kept_h(make_backward_call(512, 1024, 64));
  std::swap(c.dup, c.dgate);
  EXPECT_EQ(make_backward_steps(c, 0, 1024, nullptr).dw_products.size(), 2u);
  c.dup = nullptr;
  EXPECT_EQ(make_backward_steps(c, 0, 1024, nullptr).dw_products.size(), 1u);
  c.dgate = c.dx = nullptr;
  const GatedBackwardPlan plan = choose_plan(c, megabyte, h200_numbers());
  EXPECT_TRUE(plan.each.dw_products.empty());
  EXPECT_TRUE(plan.each.dx_products.empty());
  EXPECT_FALSE(plan.each.dx.has_value());
}

TEST(GatedBackward, UnalignedOperandsUseTwoProductsForDx) {
  GatedBackward c = with_kept_h(make_backward_call(512, 1024, 63));
  const GatedBackwardPlan plan = choose_plan(c, 100 * megabyte, h200_numbers());
  EXPECT_FALSE(plan.each.dx.has_value());
  EXPECT_EQ(plan.each.dx_products.size(), 2u);
}

TEST(GatedBackward, TooSmallWorkspaceIsRejectedWithNeededBytes) {
  const GatedBackward c = make_backward_call(4096, 16384, 4096);
  const GatedBackwardPlan plan = choose_plan(c, megabyte, h200_numbers());
  EXPECT_EQ(plan.chunk, 2048);
  EXPECT_EQ(launch(c, plan, {placeholder_pointer(1 << 20), megabyte, false}, nullptr).error().message,
            "workspace: expected 34144256 bytes, found 1000000");
  EXPECT_EQ(launch(c, plan, {placeholder_pointer(100), 100 * megabyte, false}, nullptr).error().message,
            "workspace: expected a multiple of 256 as its address");
}

TEST(GatedBackward, InvalidCallsAreRejected) {
  const auto why = [](auto change) {
    GatedBackward c = make_backward_call(64, 32, 16);
    change(c);
    const Reason reason = unsupported_reason(c);
    return reason ? reason.text() : "";
  };
  using B = GatedBackward;
  EXPECT_EQ(why([](B&) {}), "");
  EXPECT_EQ(why([](B& c) {
              c.bu = c.bg = nullptr;
              c.dbu = c.dbg = nullptr;
            }),
            "");
  EXPECT_EQ(why([](B& c) { c.size.n = -1; }), "expected sizes of at least 0, found n 64, f -1, d 16");
  EXPECT_EQ(why([](B& c) { c.dtype = DType::f32; }), "expected bf16 or f16, found f32");
  EXPECT_EQ(why([](B& c) { c.size.m = 65535 * 128 + 1; }), "expected at most 8388480 rows, found 8388481");
  EXPECT_EQ(why([](B& c) { c.dy = nullptr; }), "dy: expected device memory, found a null pointer");
  EXPECT_EQ(why([](B& c) { c.x = nullptr; }), "x: expected device memory, found a null pointer");
  EXPECT_EQ(why([](B& c) {
              c.h = placeholder_pointer(4096);
              c.x = nullptr;
              c.dup = c.dgate = nullptr;
            }),
            "");
  EXPECT_EQ(why([](B& c) {
              c.h = placeholder_pointer(4096);
              c.h_row_stride = 63;
            }),
            "h: expected a stride of at least 64, found 63: its rows would overlap");
  EXPECT_EQ(why([](B& c) { c.weight_grad_row_stride = 15; }),
            "dup: expected a stride of at least 16, found 15: its rows would overlap");
  EXPECT_EQ(why([](B& c) { c.dbg = placeholder_pointer(4097); }),
            "dbg: expected a pointer to whole bf16 elements, found one that is not a multiple of 2 bytes");
}

TEST(GatedBackward, EmptyLayersArePlanned) {
  for (const auto& [n, f, d] : {std::tuple{0, 64, 16}, {64, 0, 16}, {64, 32, 0}, {0, 0, 0}})
    for (const bool keeps : {false, true}) {
      const GatedBackward c = keeps ? with_kept_h(make_backward_call(n, f, d)) : make_backward_call(n, f, d);
      EXPECT_FALSE(unsupported_reason(c));
      EXPECT_GE(choose_plan(c, megabyte, h200_numbers()).predicted_s, 0);
    }
}

TEST(GatedTrainingPlan, HIsKeptIfMemoryAllowsElseRecomputed) {
  const GatedCall sizes{.size = {4096, 32768, 8192}};
  const auto roomy = plan_gated_training(sizes, 600 * megabyte, h200_numbers()),
             tight = plan_gated_training(sizes, 161 * megabyte, h200_numbers());
  ASSERT_TRUE(roomy.ok() && tight.ok());
  EXPECT_TRUE(roomy->keeps_h);
  EXPECT_EQ(roomy->extra_bytes, 4u * 4096 * 32768 + device::counter_bytes + 4096 / 128 * 2 * 32768 * 4);
  EXPECT_FALSE(tight->keeps_h);
  EXPECT_LE(tight->extra_bytes, 161 * megabyte);
  EXPECT_NEAR(tight->forward_s + tight->backward_s, 1.33 * (roomy->forward_s + roomy->backward_s),
              0.06 * (roomy->forward_s + roomy->backward_s));
}

TEST(GatedTrainingPlan, TooLittleMemoryReportsNeededBytes) {
  const auto none = plan_gated_training({.size = {4096, 16384, 4096}}, 30 * megabyte, h200_numbers());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message, "expected 34144256 free bytes besides inputs and outputs, found 30000000");
  EXPECT_EQ(none.error().hint,
            "backward needs h and its gradient for 1/8 of the 16384 hidden columns: use fewer than 4096 rows");
  EXPECT_EQ(plan_gated_training({.size = {8, 8, 8}, .dtype = DType::f32}, megabyte, h200_numbers()).error().message,
            "expected bf16 or f16, found f32");
}

// Measured on a busy H200 (results/h200_geglu_torch.json), keeping h and keeping only x.
TEST(GatedTrainingPlan, PredictionsAreWithinTenPercentOfMeasurements) {
  struct MeasuredTime {
    std::int64_t n, d;
    std::size_t bytes;
    double us;
  };
  for (const MeasuredTime& s : {MeasuredTime{8192, 1024, 1000 * megabyte, 683},
                                {8192, 1024, 82 * megabyte, 861},
                                {4096, 4096, 1000 * megabyte, 4783},
                                {4096, 4096, 93 * megabyte, 6638},
                                {4096, 8192, 1000 * megabyte, 18886},
                                {4096, 8192, 161 * megabyte, 26149}}) {
    const auto plan = plan_gated_training({.size = {s.n, 4 * s.d, s.d}}, s.bytes, h200_numbers());
    ASSERT_TRUE(plan.ok());
    EXPECT_NEAR((plan->forward_s + plan->backward_s) * 1e6 / s.us, 1, 0.1) << s.n << " x " << s.d << ", " << s.bytes;
  }
}

}  // namespace
}  // namespace ridge::ops::cuda

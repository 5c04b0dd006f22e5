#include "ridge/ops/attention/model.h"

#include <gtest/gtest.h>

#include <set>

#include "ridge/ops/attention/config.h"
#include "ridge/ops/attention/mask.h"
#include "ridge/tile/steps.h"

namespace ridge::ops {
namespace {

constexpr DeviceNumbers device{.multiprocessors = 132,
                               .clock_hz = 1.8e9,
                               .busy_clock_hz = 1.7e9,
                               .memory_bytes_per_s = 3e12,
                               .l2_bytes_per_s = 5.5e12,
                               .l2_bytes = 50 << 20,
                               .launch_s = 2e-6};

AttentionProblem make_problem(std::int64_t outer, std::int64_t heads, std::int64_t rows, std::int64_t width) {
  AttentionProblem p{.outer = outer, .heads = heads, .key_heads = heads, .rows = rows, .keys = rows, .width = width};
  p.q = p.k = p.v = p.o = {rows * heads * width, width, heads * width};
  return p;
}

TEST(AttentionModel, FlopsCountOnlyVisiblePairs) {
  AttentionProblem p = make_problem(2, 3, 10, 64);
  EXPECT_EQ(flops(p), 4.0 * 64 * 6 * 100);
  p.high = 0;
  EXPECT_EQ(flops(p), 4.0 * 64 * 6 * 55);
  p.low = -2;
  EXPECT_EQ(flops(p), 4.0 * 64 * 6 * (1 + 2 + 8 * 3));
  EXPECT_EQ(traffic_bytes(p), 4.0 * 2 * 3 * 10 * 64 * 2);
}

// The last 128 of 4096 keys of a cache, then keys up to the diagonal, then a band that moves with the rows.
TEST(AttentionModel, TrafficCountsOnlyKeysThatARowSees) {
  AttentionProblem p = make_problem(2, 3, 1, 64);
  p.keys = 4096;
  p.low = 4096 - 128;
  p.moves_with_rows = false;
  EXPECT_EQ(count_seen_keys(p), 128);
  EXPECT_EQ(traffic_bytes(p), 2.0 * 64 * 2 * 2 * 3 * (1 + 128));
  p.low = -128;
  p.lengths = AttentionProblem::Lengths{.low_from_length = true};
  EXPECT_EQ(count_seen_keys(p), 128) << "the window ends at the longest sequence's end";
  p = make_problem(2, 3, 10, 64);
  p.keys = 100;
  p.high = 0;
  EXPECT_EQ(count_seen_keys(p), 10);
  p.low = p.high = 95;
  EXPECT_EQ(count_seen_keys(p), 5);
  const AttentionBackwardProblem x{.forward = p};
  EXPECT_EQ(traffic_bytes(x), 2.0 * 64 * 2 * 3 * (4 * 10 + 2 * 100 + 2 * 5));
}

TEST(AttentionModel, ChoosesTheSmallestSufficientHeadSize) {
  for (const auto& [width, kernel] : std::initializer_list<std::pair<int, int>>{
           {8, 64}, {64, 64}, {72, 128}, {128, 128}, {136, 192}, {192, 192}, {200, 256}, {256, 256}}) {
    const cuda::AttentionPlan plan = cuda::choose_plan(make_problem(4, 16, 4096, width), device);
    EXPECT_EQ(attention_kernel_configs[plan.config].d, kernel) << width;
  }
  const cuda::AttentionPlan plan = cuda::choose_plan(make_problem(4, 16, 4096, 128), device);
  EXPECT_EQ(plan.items, 64 * 32);
  const std::int64_t kv = attention_kernel_configs[plan.config].kv;
  EXPECT_EQ(plan.steps, plan.items * ((4096 + kv - 1) / kv));
}

// Two of the measured times to which the model is fitted (results/h100_attention.json).
TEST(AttentionModel, PredictsTheTimesItWasFittedTo) {
  DeviceNumbers h100 = device;
  h100.busy_clock_hz = 1.693e9;
  AttentionProblem p = make_problem(4, 16, 4096, 128);
  EXPECT_NEAR(cuda::choose_plan(p, h100).predicted_s, 878e-6, 88e-6);
  p.high = 0;
  EXPECT_NEAR(cuda::choose_plan(p, h100).predicted_s, 479e-6, 48e-6);
}

TEST(AttentionModel, DescribesUnsupportedProblems) {
  AttentionProblem p = make_problem(2, 3, 10, 64);
  EXPECT_FALSE(cuda::unsupported_reason(p));
  const auto why = [&](const auto& change) {
    AttentionProblem other = p;
    change(other);
    const Reason reason = cuda::unsupported_reason(other);
    return reason ? reason.text() : "";
  };
  EXPECT_EQ(why([](auto& x) { x.dtype = DType::f32; }), "expected bf16 or f16, found f32");
  EXPECT_EQ(why([](auto& x) { x.width = 60; }), "expected heads of 8 … 256 elements, a multiple of 8, found 60");
  EXPECT_EQ(why([](auto& x) { x.scale = -1; }), "expected a scale above 0, found -1");
  EXPECT_EQ(why([](auto& x) { x.keys = 0; }),
            "expected sizes of at least 1 and heads in multiples of 3, found 2 x 3 heads, 10 rows and 0 keys");
  EXPECT_EQ(why([](auto& x) { x.heads = 4; }),
            "expected sizes of at least 1 and heads in multiples of 3, found 2 x 4 heads, 10 rows and 10 keys");
  EXPECT_EQ(why([](auto& x) { x.v.head = 0; }),
            "v's heads overlap: expected strides above 0, found 1920 and 0 for 2 x 3 heads");
  EXPECT_EQ(why([](auto& x) { x.k.row = 196; }),
            "k is not 16-byte aligned: expected strides in multiples of 8 elements, found 1920, 64 and 196");
  EXPECT_EQ(why([](auto& x) { x.o.row = 32; }), "o's rows overlap: expected a row stride of at least 64, found 32");
}

TEST(AttentionModel, BandAgreesWithEachPairOfRowAndKey) {
  for (const int low : {-(1 << 30), -5, 3})
    for (const int high : {-3, 0, 7, 1 << 30}) {
      const Band band{low, high, 20};
      for (int row = 0; row < 24; ++row)
        for (int from : {0, 4, 16})
          for (int col = 0; col < 8; ++col) {
            const int key = from + col;
            const bool sees = key - row >= low && key - row <= high && key < 20;
            const tile::IntRange seen = band.visible_keys(row, from);
            EXPECT_EQ(col >= seen.begin && col < seen.end, sees);
            if (sees) {
              EXPECT_TRUE(key >= band.first_key(row) && key < band.end_key(row));
            } else {
              EXPECT_TRUE(band.has_masked_pair(row, 1, key, 1));
            }
          }
    }
}

TEST(AttentionModel, SplitsTheKeysOfFewRows) {
  AttentionProblem p{.outer = 1, .heads = 32, .key_heads = 8, .rows = 1, .keys = 8192, .width = 128};
  p.q = p.o = {32 * 128, 128, 128};
  p.k = p.v = {8192 * 1024, 128, 1024};
  const AttentionProblem folded = cuda::fold_heads(p);
  EXPECT_EQ(folded.heads, 8);
  EXPECT_EQ(folded.rows, 4);
  EXPECT_EQ(folded.q, (HeadsLayout{32 * 128, 4 * 128, 128}));
  EXPECT_FALSE(folded.moves_with_rows);
  EXPECT_EQ(flops(folded), flops(p));
  const cuda::AttentionPlan plan = cuda::choose_plan(p, device);
  const AttentionConfig& c = attention_kernel_configs[plan.config];
  EXPECT_EQ(c.consumers, 1);
  EXPECT_EQ(plan.key_splits, 16);  // 8 tiles on 132 multiprocessors
  EXPECT_EQ(plan.items, 8 * 16);
  EXPECT_EQ(plan.workspace_bytes, 8 * 16 * (64 * 128 + 4 * 128) * sizeof(float));
  p.high = 100;  // One step of keys cannot be split
  EXPECT_EQ(cuda::choose_plan(p, device).key_splits, 1);
}

// With two to eight rows, heads that share keys are the lines of each row of a tile, so that keys are loaded once.
TEST(AttentionModel, PutsHeadsThatShareKeysIntoOneTile) {
  AttentionProblem p{.outer = 4, .heads = 32, .key_heads = 8, .rows = 5, .keys = 8192, .width = 128};
  p.q = p.o = {5 * 32 * 128, 128, 32 * 128};
  p.k = p.v = {8192 * 1024, 128, 1024};
  cuda::AttentionPlan plan = cuda::choose_plan(p, device);
  EXPECT_EQ(plan.heads_per_tile, 4);
  EXPECT_TRUE(plan.is_ragged);
  EXPECT_EQ(plan.key_splits, 4);  // 32 tiles on 132 multiprocessors
  EXPECT_EQ(plan.items, 32 * 4);
  EXPECT_EQ(plan.steps, 32 * 64);
  p.rows = 17;  // 68 lines are more than a tile has
  EXPECT_EQ(cuda::choose_plan(p, device).heads_per_tile, 1);
  p.rows = 1;
  plan = cuda::choose_plan(p, device);
  EXPECT_FALSE(plan.is_ragged) << "uniform sequences of one row need no ragged kernel";
  p.lengths = AttentionProblem::Lengths{};
  plan = cuda::choose_plan(p, device);
  EXPECT_EQ(plan.heads_per_tile, 4);
  EXPECT_TRUE(plan.is_ragged);
}

TEST(AttentionModel, ShiftsTheBandByTheLength) {
  AttentionProblem p = make_problem(2, 3, 10, 64);
  p.keys = 50;
  p.low = -30;
  p.high = -10;
  p.lengths = {.length_offset = 0, .low_from_length = true, .high_from_length = true};
  const AttentionProblem x = with_length(p, 40);
  EXPECT_EQ(x.keys, 40);
  EXPECT_EQ(x.low, 10);
  EXPECT_EQ(x.high, 30);
  EXPECT_FALSE(x.lengths);
  EXPECT_EQ(with_length(p, 70).keys, 50);
  EXPECT_EQ(with_length(p, -3).keys, 0);
  EXPECT_EQ(flops(p), flops(with_length(p, 50)));
  const Band band{-30, -10, 50, 1}, moved = band.for_length(40, length_dependence_of(p));
  EXPECT_EQ(moved.keys, 40);
  EXPECT_EQ(moved.first_key(3), 13);
  EXPECT_EQ(moved.end_key(3), 34);
  EXPECT_EQ(clamp_length(2147483647), 1 << 29);
  EXPECT_EQ(clamp_length(-2147483647 - 1), -(1 << 29));
}

TEST(AttentionModel, RejectsABandTooFarFromTheLength) {
  AttentionProblem p = make_problem(2, 3, 10, 64);
  p.high = AttentionProblem::unbounded - 1;
  EXPECT_FALSE(cuda::unsupported_reason(p));
  p.lengths = {.length_offset = 0, .high_from_length = true};
  EXPECT_EQ(cuda::unsupported_reason(p).text(),
            "expected a band within 2^29 of a sequence's length, found -1073741824 … 1073741823 and 0");
}

// Plans with two consumer warpgroups never split the keys of a tile (tile/step_ring.h).
TEST(AttentionModel, NeverSplitsKeysWithTwoConsumers) {
  for (const std::int64_t rows : {1, 3, 17, 64, 65, 200, 1000})
    for (const std::int64_t keys : {64, 1000, 5000, 100000}) {
      AttentionProblem p = make_problem(1, 2, rows, 192);
      p.keys = keys;
      const cuda::AttentionPlan plan = cuda::choose_plan(p, device);
      const AttentionConfig& c = attention_kernel_configs[plan.config];
      EXPECT_TRUE(plan.key_splits == 1 || c.consumers == 1) << rows << " " << keys;
    }
}

TEST(ItemOrder, DividesTheStepsOfATileAmongItsParts) {
  const tile::ItemOrder order{3, 130, 64, 2, 5};
  EXPECT_EQ(order.item_count(), 3 * 3 * 5);
  std::set<std::pair<int, int>> seen;
  for (int i = 0; i < order.item_count(); ++i) {
    const tile::StepItem item = order.item_at(i);
    EXPECT_EQ(item.tile, i / 5);
    seen.emplace(item.tile, item.part);
  }
  EXPECT_EQ(seen.size(), 45u);
  for (const int count : {1, 3, 5, 17}) {
    int next = 0;
    for (int part = 0; part < 5; ++part) {
      const tile::IntRange own = order.steps_of_part(part, count);
      if (part < order.nonempty_parts(count)) {
        EXPECT_EQ(own.begin, next);
        EXPECT_GT(own.end, own.begin);
        next = own.end;
      } else {
        EXPECT_EQ(own.begin, own.end);
      }
    }
    EXPECT_EQ(next, count);
  }
}

TEST(ItemOrder, VisitsEachTileOnceLastRowsFirst) {
  for (const int width : {1, 3, 7, 100}) {
    const tile::ItemOrder order{.matrices = 7, .rows = 300, .tile_rows = 128, .group_matrices = width};
    EXPECT_EQ(order.item_count(), 21);
    std::set<std::pair<int, int>> seen;
    for (int i = 0; i < order.item_count(); ++i) {
      const tile::StepItem item = order.item_at(i);
      EXPECT_TRUE(item.is_valid);
      seen.emplace(item.matrix, item.row);
    }
    EXPECT_EQ(seen.size(), 21U);
    EXPECT_EQ(order.item_at(0).row, 256);
    EXPECT_FALSE(order.item_at(21).is_valid);
  }
}

}  // namespace
}  // namespace ridge::ops

#include "ridge/ops/gated/joined_matmul.h"

#include <gtest/gtest.h>

#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/gated/input_gradient.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/count_traffic.h"
#include "ridge/tile/trace/record.h"

namespace ridge::ops {
namespace {

using tile::Index;

template <std::size_t index> using InputGradientMatmul = JoinedMatmul<input_gradient_kernel_configs[index], Bf16>;

// Counts the bytes of each pair of operands, also for k that ends inside a stage.
TEST(JoinedMatmul, BothPairsAreLoadedOncePerTile) {
  using Kernel = InputGradientMatmul<1>;
  static_assert(Kernel::config.m == 128 && Kernel::config.n == 128 && Kernel::config.k == 64);
  for (const Index k : {1, 64, 100, 640}) {
    Kernel::Globals g;
    g.second_begin = static_cast<int>((k + 63) / 64 * 64);
    g.a.rows = g.second_a.rows = 300;
    g.a.cols = g.second_a.cols = k;
    g.b.rows = g.second_b.rows = 200;
    g.b.cols = g.second_b.cols = k;
    g.d.rows = 300;
    g.d.cols = 200;
    const tile::trace::TileSchedule s{.tile_shape = {128, 128, 64}, .sizes = {300, 200, 2 * g.second_begin}};
    const tile::trace::TrafficCounts c = tile::trace::count_traffic_of<Kernel>(g, s);
    EXPECT_EQ(c.load(&g.a).global_bytes, 2 * 2 * 300 * k);
    EXPECT_EQ(c.load(&g.second_a).global_bytes, 2 * 2 * 300 * k);
    EXPECT_EQ(c.load(&g.b).global_bytes, 2 * 3 * 200 * k);
    EXPECT_EQ(c.load(&g.second_b).global_bytes, 2 * 3 * 200 * k);
    EXPECT_EQ(c.store(&g.d).global_bytes, 2 * 300 * 200);
    EXPECT_EQ(c.flops, 2 * 300 * 200 * 2 * k);
  }
}

template <std::size_t index> void expect_no_sync_errors() {
  constexpr MatmulConfig c = input_gradient_kernel_configs[index];
  const tile::trace::RecordOptions two_tiles{.kernel = "input gradient, config " + std::to_string(index),
                                             .sizes = {.m = 2 * c.m, .n = c.n, .k = c.k * (c.stages + 1)}};
  EXPECT_EQ(check_schedules(tile::trace::record_program<InputGradientMatmul<index>>(two_tiles), 300).first_error, "");
}
TEST(JoinedMatmul, HasNoSynchronizationErrors) {
  [&]<std::size_t... index>(std::index_sequence<index...>) { (expect_no_sync_errors<index>(), ...); }
  (std::make_index_sequence<input_gradient_kernel_configs.size()>{});
}

}  // namespace
}  // namespace ridge::ops

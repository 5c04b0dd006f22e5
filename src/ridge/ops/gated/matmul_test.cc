// Compares the gated kernel definition (halves of a tile, fold and map) with a loop nest on the CPU, and checks its
// traffic and synchronization on the trace target.
#include "ridge/ops/gated/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/pool/isa.h"
#include "ridge/tile/cpu/run_matmul.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/count_traffic.h"
#include "ridge/tile/trace/record.h"

namespace ridge::ops {
namespace {

using tile::Index;

struct Gate {  // u * relu(v), with a bias on each
  const float *u_bias = nullptr, *v_bias = nullptr;
  float operator()(float u, float v, Index, Index col) const {
    const float gate = v + v_bias[col];
    return (u + u_bias[col]) * (gate > 0 ? gate : 0);
  }
};
inline constexpr MatmulConfig cpu_config{.m = 112, .n = 2 * 4096, .k = 4096};
using CpuKernel = GatedMatmul<cpu_config, float, float, Gate>;

struct GatedCase {
  Index m, f, k;
  std::vector<float> x, u, v, d, u_bias, v_bias, v_transposed;
  GatedCase(Index rows, Index columns, Index depth) : m(rows), f(columns), k(depth) {
    x.resize(m * k);
    d.assign(m * f, -77);
    u.resize(f * k);
    v = u;
    u_bias.resize(f);
    v_bias = u_bias;
    unsigned seed = 1;
    for (std::vector<float>* each : {&x, &u, &v, &u_bias, &v_bias})
      for (float& e : *each) e = static_cast<float>((seed = seed * 1664525 + 1013904223) >> 16 & 7) - 3;
  }
  // If `is_transposed`, v is contiguous along f; u is always contiguous along k.
  CpuKernel::Globals make_globals(bool is_transposed = false) {
    CpuKernel::Globals g;
    static_cast<tile::Matrix&>(g.a) = {x.data(), m, k, k};
    static_cast<tile::Matrix&>(g.b) = {u.data(), f, k, k};
    static_cast<tile::Matrix&>(g.c) = {v.data(), f, k, k};
    if (is_transposed) {
      v_transposed.resize(v.size());
      for (Index j = 0; j < f; ++j)
        for (Index t = 0; t < k; ++t) v_transposed[t * f + j] = v[j * k + t];
      static_cast<tile::Matrix&>(g.c) = {v_transposed.data(), f, k, 1, f};
    }
    g.d = {d.data(), m, f, f};
    g.combine = {u_bias.data(), v_bias.data()};
    return g;
  }
  float sum(const std::vector<float>& w, Index i, Index j) const {
    float s = 0;  // Exact: sums of small integers
    for (Index t = 0; t < k; ++t) s += x[i * k + t] * w[j * k + t];
    return s;
  }
  float expected(Index i, Index j) const {
    return Gate{u_bias.data(), v_bias.data()}(sum(u, i, j), sum(v, i, j), i, j);
  }
};

class GatedOnEveryIsa : public ::testing::TestWithParam<pool::Isa> {
  void SetUp() override { ASSERT_TRUE(pool::set_active_isa(GetParam())); }
  void TearDown() override { pool::set_active_isa(before_); }
  pool::Isa before_ = pool::active_isa();
};
INSTANTIATE_TEST_SUITE_P(GatedCase, GatedOnEveryIsa, ::testing::ValuesIn(pool::available_isas()),
                         [](const auto& param) { return std::string(pool::isa_name(param.param)); });

template <class Kernel> void run_gated_kernel(const typename Kernel::Globals& g, const GatedCase& x, int threads) {
  tile::cpu::run_kernel<Kernel>(g, {1, x.m, x.f, x.k}, *tile::cpu::find_engine(DType::f32, DType::f32), threads);
}

TEST_P(GatedOnEveryIsa, GatedProductsOfIntegersAreExact) {
  for (const auto& [m, f, k] : {std::array<Index, 3>{1, 1, 1},
                                {7, 33, 5},
                                {3, 300, 900},
                                {113, 65, 70},
                                {230, 517, 401},
                                {20, 31, 1300},
                                {3, 40, 50},
                                {12, 40, 50},
                                {30, 40, 50},
                                {5, 9, 0}}) {
    GatedCase x(m, f, k);
    for (const int threads : {1, 2, 3, -2}) {
      const bool is_transposed = threads < 0;  // The two weights have different layouts
      std::fill(x.d.begin(), x.d.end(), -77.0F);
      run_gated_kernel<CpuKernel>(x.make_globals(is_transposed), x, std::abs(threads));
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < f; ++j)
          ASSERT_EQ(x.d[i * f + j], x.expected(i, j))
              << m << " " << f << " " << k << ": " << i << " " << j << ", " << threads << " threads";
    }
  }
}

struct HalvedAndShifted : CpuKernel {  // Applies at.map to the result of at.fold
  TILE_FN static void store(auto& at, const Globals& g, const State& acc) {
    const auto halved = [](float y, Index row, Index col) { return y / 2 + static_cast<float>(row * 1000 + col); };
    at.store(g.d, at.map(at.fold(acc, g.combine), halved), at.row(), at.col());
  }
};
struct Doubled : CpuKernel {  // Doubles the sums after each product
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) {
    at.mma(acc, s.a, transposed(s.pair));
    at.wait_for_product(acc);
    at.map(acc, [](float sum, Index, Index) { return 2 * sum; });
  }
};

TEST_P(GatedOnEveryIsa, MapsComposeWithFoldsAndWithEpilogues) {
  GatedCase x(37, 300, 40);
  run_gated_kernel<HalvedAndShifted>(x.make_globals(), x, 2);
  for (Index i = 0; i < x.m; ++i)
    for (Index j = 0; j < x.f; ++j)
      ASSERT_EQ(x.d[i * x.f + j], x.expected(i, j) / 2 + static_cast<float>(i * 1000 + j));
  CpuKernel::Globals g = x.make_globals();
  MatmulEpilogue minus;
  minus.alpha = -1;
  g.d.target = {to_tile_epilogue(minus, DType::f32), apply_epilogue};
  run_gated_kernel<CpuKernel>(g, x, 2);
  for (Index i = 0; i < x.m; ++i)
    for (Index j = 0; j < x.f; ++j) ASSERT_EQ(x.d[i * x.f + j], -x.expected(i, j));
}

TEST_P(GatedOnEveryIsa, ComputeMayModifySums) {
  GatedCase x(9, 40, 20);  // One stage
  std::fill(x.u_bias.begin(), x.u_bias.end(), 0.0F);
  std::fill(x.v_bias.begin(), x.v_bias.end(), 0.0F);
  run_gated_kernel<Doubled>(x.make_globals(), x, 1);
  for (Index i = 0; i < x.m; ++i)
    for (Index j = 0; j < x.f; ++j) ASSERT_EQ(x.d[i * x.f + j], 4 * x.expected(i, j));
}

template <int consumers>
constexpr MatmulConfig hopper_config{.m = 64 * consumers, .n = 128, .k = 64, .stages = 3, .consumers = consumers};
template <int consumers> using HopperKernel = GatedMatmul<hopper_config<consumers>, Bf16, Bf16, Gate>;

TEST(GatedTrace, TrafficOfBothHalvesIsCounted) {
  using Kernel = HopperKernel<2>;
  for (const Index f : {64, 100, 1000}) {
    Kernel::Globals g;
    g.a.rows = 300;
    g.a.cols = 100;
    g.b.rows = g.c.rows = f;
    g.b.cols = g.c.cols = 100;
    g.d.rows = 300;
    g.d.cols = f;
    const tile::trace::TileSchedule s{.tile_shape = {128, 64, 64}, .sizes = {300, static_cast<int>(f), 100}};
    const tile::trace::TrafficCounts c = tile::trace::count_traffic_of<Kernel>(g, s);
    EXPECT_EQ(c.load(&g.b).global_bytes, 2 * 3 * f * 100);
    EXPECT_EQ(c.load(&g.c).global_bytes, 2 * 3 * f * 100);
    EXPECT_EQ(c.load(&g.a).global_bytes, 2 * 300 * 100 * ((f + 63) / 64));
    EXPECT_EQ(c.store(&g.d).global_bytes, 2 * 300 * f);
    EXPECT_EQ(c.flops, 2 * 300 * 2 * f * 100);
  }
}

TEST(GatedTrace, HasNoSynchronizationErrors) {
  const auto first_error = [](const tile::trace::RecordedProgram& p) {
    return tile::trace::check_schedules(p, 1000).first_error;
  };
  EXPECT_EQ(first_error(tile::trace::record_program<HopperKernel<1>>(
                {.kernel = "gated", .sizes = {.m = 192, .n = 64, .k = 256}})),
            "");
  EXPECT_EQ(first_error(tile::trace::record_program<HopperKernel<2>>(
                {.kernel = "gated", .sizes = {.m = 128, .n = 128, .k = 64}})),
            "");
}

struct WithWait : HopperKernel<1> {
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) {
    at.mma(acc, s.a, transposed(s.pair));
    at.wait_for_product(acc);
    at.map(acc, [](float sum, Index, Index) { return sum; });
  }
};
struct WithoutWait : HopperKernel<1> {
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) {
    at.mma(acc, s.a, transposed(s.pair));
    at.map(acc, [](float sum, Index, Index) { return sum; });
  }
};

TEST(GatedTrace, ReadingSumsWithoutWaitIsDetected) {
  const tile::trace::RecordOptions options{.kernel = "scaled", .sizes = {.m = 64, .n = 64, .k = 256}};
  EXPECT_EQ(tile::trace::check_schedules(tile::trace::record_program<WithWait>(options), 1000).first_error, "");
  const tile::trace::CheckResult v =
      tile::trace::check_schedules(tile::trace::record_program<WithoutWait>(options), 1000);
  EXPECT_EQ(v.failed, 1000);
  EXPECT_EQ(
      v.first_error,
      "scaled: consumer 0 sums: the sums of tile 0 are used and no multiply has written them; missing: a stage of k "
      "for this work item");
}

}  // namespace
}  // namespace ridge::ops

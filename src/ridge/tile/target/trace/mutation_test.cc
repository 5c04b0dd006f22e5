// No target knows a kernel by name: what happens is what the text says. Each test changes one word in a copy of the
// matmul text and sees the counts (here) and the results (on the cpu) change accordingly.
#include <gtest/gtest.h>

#include <numeric>

#include "ridge/kernels/matmul.h"
#include "ridge/tile/target/cpu/isa.h"
#include "ridge/tile/target/cpu/run.h"
#include "ridge/tile/target/trace/count.h"

namespace ridge::tile::trace {
namespace {

inline constexpr kernels::MatmulConfig config{.m = 128, .n = 128, .k = 4096};
using Plain = kernels::Matmul<config, float, float, float>;

struct WithoutLeft : Plain {
  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) { at.load(s.b, g.b, at.col(), k); }
};
struct WithoutRight : Plain {
  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) { at.load(s.a, g.a, at.row(), k); }
};
struct Twice : Plain {  // scales by two
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) {
    at.mma(acc, s.a, transposed(s.b));
    at.mma(acc, s.a, transposed(s.b));
  }
};
struct Unstored : Plain {
  TILE_FN static void store(auto&, const Globals&, const State&) {}
};
struct Shifted : Plain {  // one row further down: the last row of tiles reads one row less
  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.a, g.a, Row{{at.row().begin + 1, at.row().size}}, k);
    at.load(s.b, g.b, at.col(), k);
  }
};

template <class Kernel> typename Kernel::Globals globals(Index m, Index n, Index k) {
  typename Kernel::Globals g;
  g.a.rows = m, g.a.cols = k;
  g.b.rows = n, g.b.cols = k;
  g.d.rows = m, g.d.cols = n;
  return g;
}

struct Seen {
  Index left, right, stored, flops;
  bool operator==(const Seen&) const = default;
};
template <class Kernel> Seen seen() {
  const auto g = globals<Kernel>(300, 200, 100);
  TileSchedule s{.cut = {128, 128, 64}, .sizes = {300, 200, 100}};
  const Counts c = count<Kernel>(g, s);
  return {c.load(&g.a).global_bytes, c.load(&g.b).global_bytes, c.store(&g.d).global_bytes, c.flops};
}

TEST(Mutation, TheCountsFollowEveryWordOfTheText) {
  const Seen plain{4 * 300 * 100 * 2, 4 * 200 * 100 * 3, 4 * 300 * 200, 2 * 300 * 200 * 100};
  EXPECT_EQ(seen<Plain>(), plain);
  EXPECT_EQ(seen<WithoutLeft>(), (Seen{0, plain.right, plain.stored, 0}));
  EXPECT_EQ(seen<WithoutRight>(), (Seen{plain.left, 0, plain.stored, 0}));
  EXPECT_EQ(seen<Twice>(), (Seen{plain.left, plain.right, plain.stored, 2 * plain.flops}));
  EXPECT_EQ(seen<Unstored>(), (Seen{plain.left, plain.right, 0, plain.flops}));
  EXPECT_EQ(seen<Shifted>(), (Seen{4 * 299 * 100 * 2, plain.right, plain.stored, 2 * 299 * 200 * 100}));
}

// Two matrices in the rows of one tile, multiplied at once: the gate's form.
template <class T> struct Gate {
  static constexpr kernels::MatmulConfig config{.m = 128, .n = 128, .k = 64};
  using A = SharedTile<T, 128, 64>;
  using W = SharedTile<T, 128, 64>;
  using Half = SharedTile<T, 64, 64>;
  struct Globals {
    GlobalView<A, Row> x;
    GlobalView<Half, Col, constant> up, gate;
    OutputView<T, 128, 128> y;
  };
  struct Stage {
    A x;
    W w;
  };
  using State = Accumulator<128, 128>;
  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) {
    const Col half{{at.col().begin / 2, 64}};
    at.load(s.x, g.x, at.row(), k);
    at.load(rows<0, 64>(s.w), g.up, half, k);
    at.load(rows<64, 64>(s.w), g.gate, half, k);
  }
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) { at.mma(acc, s.x, transposed(s.w)); }
  TILE_FN static void store(auto& at, const Globals& g, const State& acc) { at.store(g.y, acc, at.row(), at.col()); }
};

TEST(Mutation, TwoMatricesInOneTileAreCountedEach) {
  using Kernel = Gate<Bf16>;
  for (const Index f : {64, 100, 1000}) {
    Kernel::Globals g;
    g.x.rows = 300, g.x.cols = 100;
    g.up.rows = g.gate.rows = f, g.up.cols = g.gate.cols = 100;
    g.y.rows = 300, g.y.cols = 2 * f;
    const int wide = static_cast<int>(2 * ((f + 63) / 64 * 64));
    const Counts c = count<Kernel>(g, TileSchedule{.cut = {128, 128, 64}, .sizes = {300, wide, 100}});
    EXPECT_EQ(c.load(&g.up).global_bytes, 2 * 3 * f * 100);
    EXPECT_EQ(c.load(&g.gate).global_bytes, 2 * 3 * f * 100);
    EXPECT_EQ(c.load(&g.x).global_bytes, 2 * 300 * 100 * ((f + 63) / 64));
    EXPECT_EQ(c.flops, 2 * 300 * 2 * f * 100);
  }
}

template <class Kernel> std::vector<float> on_cpu() {
  constexpr Index m = 30, n = 40, k = 50;
  std::vector<float> a(m * k), b(n * k), d(m * n, -1);
  for (Index i = 0; i < m * k; ++i) a[i] = static_cast<float>(i % 7 - 3);
  for (Index i = 0; i < n * k; ++i) b[i] = static_cast<float>(i % 5 - 2);
  auto g = globals<Kernel>(m, n, k);
  g.a.data = a.data(), g.a.row_stride = k;
  g.b.data = b.data(), g.b.row_stride = k;
  g.d.data = d.data(), g.d.row_stride = n;
  cpu::run_kernel<Kernel>(g, {1, m, n, k}, *cpu::engine(DType::f32, DType::f32), 1);
  return d;
}

TEST(Mutation, OnTheCpuAScaleInsideComputeScalesTheResult) {
  const std::vector<float> plain = on_cpu<Plain>(), twice = on_cpu<Twice>();
  ASSERT_NE(plain, std::vector<float>(plain.size(), 0.0F));
  for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(twice[i], 2 * plain[i]);
}

}  // namespace
}  // namespace ridge::tile::trace

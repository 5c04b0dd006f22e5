// Checks that targets run the operations of a kernel's functions and recognise no kernel by name. Each test changes one
// operation in a copy of the matmul kernel and checks that the traffic counts and the CPU's results change accordingly.
#include <gtest/gtest.h>

#include <numeric>

#include "ridge/ops/product/matmul.h"
#include "ridge/pool/isa.h"
#include "ridge/tile/cpu/run_matmul.h"
#include "ridge/tile/trace/count_traffic.h"

namespace ridge::tile::trace {
namespace {

inline constexpr ops::MatmulConfig config{.m = 128, .n = 128, .k = 4096};
using Plain = ops::Matmul<config, float, float, float>;

struct WithoutLeft : Plain {
  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) { at.load(s.b, g.b, at.col(), k); }
};
struct WithoutRight : Plain {
  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) { at.load(s.a, g.a, at.row(), k); }
};
struct Twice : Plain {  // scales the sums by two
  TILE_FN static void compute(auto& at, State& acc, const Stage& s) {
    at.mma(acc, s.a, transposed(s.b));
    at.mma(acc, s.a, transposed(s.b));
  }
};
struct Unstored : Plain {
  TILE_FN static void store(auto&, const Globals&, const State&) {}
};
struct Shifted : Plain {  // reads one row further down: the last row of tiles has one row less
  TILE_FN static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.a, g.a, Row{{at.row().begin + 1, at.row().size}}, k);
    at.load(s.b, g.b, at.col(), k);
  }
};

template <class Kernel> typename Kernel::Globals globals(Index m, Index n, Index k) {
  typename Kernel::Globals g;
  g.a.rows = m;
  g.a.cols = k;
  g.b.rows = n;
  g.b.cols = k;
  g.d.rows = m;
  g.d.cols = n;
  return g;
}

struct CountedWork {
  Index left, right, stored, flops;
  bool operator==(const CountedWork&) const = default;
};
template <class Kernel> CountedWork count_work() {
  const auto g = globals<Kernel>(300, 200, 100);
  TileSchedule s{.tile_shape = {128, 128, 64}, .sizes = {300, 200, 100}};
  const TrafficCounts c = count_traffic_of<Kernel>(g, s);
  return {c.load(&g.a).global_bytes, c.load(&g.b).global_bytes, c.store(&g.d).global_bytes, c.flops};
}

TEST(Mutation, CountsFollowTheKernelsOperations) {
  const CountedWork plain{4 * 300 * 100 * 2, 4 * 200 * 100 * 3, 4 * 300 * 200, 2 * 300 * 200 * 100};
  EXPECT_EQ(count_work<Plain>(), plain);
  EXPECT_EQ(count_work<WithoutLeft>(), (CountedWork{0, plain.right, plain.stored, 0}));
  EXPECT_EQ(count_work<WithoutRight>(), (CountedWork{plain.left, 0, plain.stored, 0}));
  EXPECT_EQ(count_work<Twice>(), (CountedWork{plain.left, plain.right, plain.stored, 2 * plain.flops}));
  EXPECT_EQ(count_work<Unstored>(), (CountedWork{plain.left, plain.right, 0, plain.flops}));
  EXPECT_EQ(count_work<Shifted>(), (CountedWork{4 * 299 * 100 * 2, plain.right, plain.stored, 2 * 299 * 200 * 100}));
}

template <class Kernel> std::vector<float> run_on_cpu() {
  constexpr Index m = 30, n = 40, k = 50;
  std::vector<float> a(m * k), b(n * k), d(m * n, -1);
  for (Index i = 0; i < m * k; ++i) a[i] = static_cast<float>(i % 7 - 3);
  for (Index i = 0; i < n * k; ++i) b[i] = static_cast<float>(i % 5 - 2);
  auto g = globals<Kernel>(m, n, k);
  g.a.data = a.data();
  g.a.row_stride = k;
  g.b.data = b.data();
  g.b.row_stride = k;
  g.d.data = d.data();
  g.d.row_stride = n;
  cpu::run_kernel<Kernel>(g, {1, m, n, k}, *cpu::find_engine(DType::f32, DType::f32), 1);
  return d;
}

TEST(Mutation, CpuResultFollowsTheKernelsOperations) {
  const std::vector<float> plain = run_on_cpu<Plain>(), twice = run_on_cpu<Twice>();
  ASSERT_NE(plain, std::vector<float>(plain.size(), 0.0F));
  for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(twice[i], 2 * plain[i]);
}

}  // namespace
}  // namespace ridge::tile::trace

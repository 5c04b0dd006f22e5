// Step 1: the three functions of a kernel, for the smallest product. d = x * y sums K products: 2K FLOPs for 2K + 1
// elements, 0.25 FLOP/B in f32.
#include "ridge/ops/product/config.h"
#include "ridge/tile/cpu/run_matmul.h"
#include "ridge/tile/trace/count_traffic.h"
#include "tutorial.h"

using namespace ridge::tile;

struct Dot {  // a work item owns one element of d; a stage holds the next 4096 elements of x and y
  static constexpr auto config = ridge::ops::cpu_kernel_configs[0];
  using Vector = SharedTile<float, 1, config.k>;
  struct Globals {
    GlobalView<Vector, Row> x;  // its first coordinate runs along d's rows, its second along k
    GlobalView<Vector, Col> y;
    OutputView<float, 1, 1> d;
  };
  struct Stage {
    Vector a, b;
  };
  using State = Accumulator<1, 1>;

  // The target supplies the loop over k, the waits and the order of stages.
  static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.a, g.x, at.row(), k);
    at.load(s.b, g.y, at.col(), k);
  }
  static void compute(auto& at, State& sum, const Stage& s) { at.mma(sum, s.a, transposed(s.b)); }
  static void store(auto& at, const Globals& g, const State& sum) { at.store(g.d, sum, at.row(), at.col()); }
};

Dot::Globals vectors(Index m, Index n, Index k, const float* x, const float* y, float* d) {
  Dot::Globals g;
  static_cast<Matrix&>(g.x) = {.data = x, .rows = m, .cols = k, .row_stride = k};
  static_cast<Matrix&>(g.y) = {.data = y, .rows = n, .cols = k, .row_stride = k};
  g.d.data = d;
  g.d.rows = m;
  g.d.cols = n;
  g.d.row_stride = n;
  return g;
}

// Returns the bytes that the kernel requests: one block, items of one element, stages of 4096.
Index traced_bytes(const Dot::Globals& g) {
  const ProductShape sizes{static_cast<int>(g.d.rows), static_cast<int>(g.d.cols), static_cast<int>(g.x.cols)};
  const trace::TrafficCounts c =
      trace::count_traffic_of<Dot>(g, trace::TileSchedule{.tile_shape = {1, 1, Dot::config.k}, .sizes = sizes});
  return c.load(&g.x).global_bytes + c.load(&g.y).global_bytes + c.store(&g.d).global_bytes;
}

double per_byte(Index flops, Index bytes) { return static_cast<double>(flops) / static_cast<double>(bytes); }

int main() {
  constexpr Index k = 1 << 20;
  const std::vector<float> x = tutorial::filled(k, 1), y = tutorial::filled(k, 2);
  float d = -1;
  const Dot::Globals g = vectors(1, 1, k, x.data(), y.data(), &d);
  const Index bytes = traced_bytes(g);
  std::printf("dot product   %8.1f MFLOP %8.2f MB   %.3f FLOP/B\n", 2e-6 * k, tutorial::mb(bytes),
              per_byte(2 * k, bytes));

  cpu::run_kernel<Dot>(g, {1, 1, 1, k}, *cpu::find_engine(ridge::DType::f32, ridge::DType::f32), 1);
  const bool right = d == tutorial::plain_product(x, y, 1, 1, k)[0] && bytes == 4 * (k + k + 1);

  // The same kernel for a matrix: every element loads its row and its column again.
  constexpr Index n = 256;
  const Index all = traced_bytes(vectors(n, n, n, nullptr, nullptr, nullptr));
  std::printf("65536 of them %8.1f MFLOP %8.2f MB   %.3f FLOP/B   (the matrices have %.2f MB)\n", 2e-6 * n * n * n,
              tutorial::mb(all), per_byte(2 * n * n * n, all), tutorial::mb(3 * 4 * n * n));
  return tutorial::ends(right && all == 4 * (n * n * 2 * n + n * n));
}

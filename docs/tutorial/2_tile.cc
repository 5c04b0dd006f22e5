// Step 2: a work item owns a tile of D and uses its loads for the full tile. The kernel of step 1 with m and n instead
// of the ones; per step of k it does 2*m*n FLOPs for m + n elements.
#include "ridge/ops/product/config.h"
#include "ridge/tile/cpu/run_matmul.h"
#include "ridge/tile/trace/count_traffic.h"
#include "tutorial.h"

using namespace ridge::tile;
using ridge::ops::MatmulConfig;

template <MatmulConfig C> struct Product {
  static constexpr MatmulConfig config = C;
  using A = SharedTile<float, C.m, C.k>;
  using B = SharedTile<float, C.n, C.k>;
  struct Globals {
    GlobalView<A, Row> a;
    GlobalView<B, Col, constant> b;  // weights: no kernel before this one writes them
    OutputView<float, C.m, C.n> d;
  };
  struct Stage {
    A a;
    B b;
  };
  using State = Accumulator<C.m, C.n>;

  static void load(auto& at, Stage& s, const Globals& g, Range k) {
    at.load(s.a, g.a, at.row(), k);
    at.load(s.b, g.b, at.col(), k);
  }
  static void compute(auto& at, State& sums, const Stage& s) { at.mma(sums, s.a, transposed(s.b)); }
  static void store(auto& at, const Globals& g, const State& sums) { at.store(g.d, sums, at.row(), at.col()); }
};

constexpr Index M = 256, N = 384, K = 256;

template <class Kernel> typename Kernel::Globals matrices(const float* a, const float* b, float* d) {
  typename Kernel::Globals g;
  static_cast<Matrix&>(g.a) = {.data = a, .rows = M, .cols = K, .row_stride = K};
  static_cast<Matrix&>(g.b) = {.data = b, .rows = N, .cols = K, .row_stride = K};
  g.d.data = d;
  g.d.rows = M;
  g.d.cols = N;
  g.d.row_stride = N;
  return g;
}

// Each tile column of D reads all of A, each tile row all of B. True if the trace counts exactly these bytes.
template <int m, int n> bool show() {
  using Kernel = Product<MatmulConfig{.m = m, .n = n, .k = 64}>;
  const auto g = matrices<Kernel>(nullptr, nullptr, nullptr);
  const trace::TrafficCounts c =
      trace::count_traffic_of<Kernel>(g, trace::TileSchedule{.tile_shape = {m, n, 64}, .sizes = {M, N, K}});
  const Index a = c.load(&g.a).global_bytes, b = c.load(&g.b).global_bytes, d = c.store(&g.d).global_bytes;
  std::printf("%3d x %-3d %9.2f %9.2f %9.2f %9.2f %9.2f\n", m, n, tutorial::mb(a), tutorial::mb(b), tutorial::mb(d),
              tutorial::mb(a + b + d), static_cast<double>(c.flops) / static_cast<double>(a + b + d));
  constexpr Index tile_rows = (M + m - 1) / m, tile_cols = (N + n - 1) / n;
  return a == 4 * M * K * tile_cols && b == 4 * N * K * tile_rows && d == 4 * M * N && c.flops == 2 * M * N * K;
}

int main() {
  std::printf("tile        A, MB     B, MB     D, MB   sum, MB    FLOP/B\n");
  bool right = show<1, 1>() & show<16, 16>() & show<64, 64>() & show<128, 64>() & show<128, 128>() & show<256, 384>();

  // On a CPU the config is an upper limit: the target chooses tiles that fit its caches and keeps packed panels.
  using Kernel = Product<ridge::ops::cpu_kernel_configs[0]>;
  const std::vector<float> a = tutorial::filled(M * K, 1), b = tutorial::filled(N * K, 2);
  std::vector<float> d(M * N, -1);
  const auto g = matrices<Kernel>(a.data(), b.data(), d.data());
  cpu::run_kernel<Kernel>(g, {1, M, N, K}, *cpu::find_engine(ridge::DType::f32, ridge::DType::f32), 2);
  right &= d == tutorial::plain_product(a, b, M, N, K);
  return tutorial::ends(right);
}

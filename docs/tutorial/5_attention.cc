// Step 5: attention, softmax(q * k / sqrt(d)) * v, of one head: 4*T*T*d FLOPs for four matrices of T x d. As a product,
// a softmax and a product, the scores P[T, T] are written, read, written and read. Two operations remove the softmax's
// pass: the first kernel exponentiates before it stores (map), the second divides by the sum (fold), so each score is
// written once and read once. Without subtraction of the maximum this is safe for scores below 88.
#include <cmath>

#include "ridge/ops/gated/matmul.h"
#include "ridge/ops/product/trace.h"
#include "ridge/tile/cpu/run_matmul.h"
#include "ridge/tile/trace/count_traffic.h"
#include "tutorial.h"

using namespace ridge::tile;
using ridge::ops::GatedMatmul, ridge::ops::Matmul, ridge::ops::MatmulConfig;

constexpr Index d = 64;

template <MatmulConfig C> struct Scores : Matmul<C, float, float, float> {  // P = exp(q * k / sqrt(d))
  using Base = Matmul<C, float, float, float>;
  static void store(auto& at, const typename Base::Globals& g, const typename Base::State& acc) {
    const auto weight = [](float x, Index, Index) { return std::exp(x / std::sqrt(static_cast<float>(d))); };
    at.store(g.d, at.map(acc, weight), at.row(), at.col());
  }
};
struct Quotient {
  float operator()(float weighted, float sum, Index, Index) const { return weighted / sum; }
};
template <MatmulConfig C> using Mean = GatedMatmul<C, float, float, Quotient>;  // (P * v) / (P * 1)

template <class Kernel>
typename Kernel::Globals scores(Index t, const float* q = nullptr, const float* k = nullptr, float* p = nullptr) {
  typename Kernel::Globals g;
  static_cast<Matrix&>(g.a) = {.data = q, .rows = t, .cols = d, .row_stride = d};
  static_cast<Matrix&>(g.b) = {.data = k, .rows = t, .cols = d, .row_stride = d};
  g.d.data = p;
  g.d.rows = t;
  g.d.cols = t;
  g.d.row_stride = t;
  return g;
}
const std::vector<float> ones(d, 1);  // one row of them serves all: its stride is 0
template <class Kernel>
typename Kernel::Globals mean(Index t, const float* p = nullptr, const float* v = nullptr, float* out = nullptr) {
  typename Kernel::Globals g;
  static_cast<Matrix&>(g.a) = {.data = p, .rows = t, .cols = t, .row_stride = t};
  static_cast<Matrix&>(g.b) = {.data = v, .rows = d, .cols = t, .row_stride = 1, .col_stride = d};
  static_cast<Matrix&>(g.c) = {.data = ones.data(), .rows = d, .cols = t, .row_stride = 1, .col_stride = 0};
  g.d.data = out;
  g.d.rows = t;
  g.d.cols = d;
  g.d.row_stride = d;
  return g;
}

struct Moved {
  Index bytes = 0, flops = 0;
};
Moved in_two(Index t) {  // tiles of 128 x 128 scores; of 128 rows and all 64 columns of the output
  using First = Scores<MatmulConfig{.m = 128, .n = 128, .k = 64}>;
  using Second = Mean<MatmulConfig{.m = 128, .n = 128, .k = 64}>;
  const int n = static_cast<int>(t);
  const auto f = scores<First>(t);
  const auto s = mean<Second>(t);
  const trace::TrafficCounts one =
      trace::count_traffic_of<First>(f, trace::TileSchedule{.tile_shape = {128, 128, 64}, .sizes = {n, n, d}});
  const trace::TrafficCounts two =
      trace::count_traffic_of<Second>(s, trace::TileSchedule{.tile_shape = {128, 64, 64}, .sizes = {n, d, n}});
  Moved sum{0, one.flops + two.flops};
  for (const trace::TrafficCounts& c : {one, two})
    for (const auto& rows : {c.loads, c.stores})
      for (const trace::ViewTraffic& x : rows) sum.bytes += x.global_bytes;
  return sum;
}
Index in_three(Index t) {
  using enum ridge::DType;
  const auto s = ridge::ops::count_tile_traffic({1, t, t, d, {f32, d, 1}, {f32, 1, d}, {f32, t, 1}}, {});
  const auto o = ridge::ops::count_tile_traffic({1, t, d, t, {f32, t, 1}, {f32, d, 1}, {f32, d, 1}}, {.n = 64});
  return s.global_bytes() + 2 * 4 * t * t + o.global_bytes();
}
Index in_one(Index t) { return 4 * d * (t + t + 2 * t * (t / 128)); }  // k and v once for each 128 rows of q

bool show(Index t) {
  const Index useful = 4 * t * t * d, three = in_three(t), one = in_one(t);
  const Moved two = in_two(t);
  const auto per_byte = [&](Index bytes) { return static_cast<double>(useful) / static_cast<double>(bytes); };
  std::printf("%5lld %8.1f %11.2f %6.1f %9.2f %6.1f %9.2f %6.1f\n", static_cast<long long>(t), tutorial::mb(useful),
              tutorial::mb(three), per_byte(three), tutorial::mb(two.bytes), per_byte(two.bytes), tutorial::mb(one),
              per_byte(one));
  const Index in_ones = 4 * t * d * (t / 128);  // asked for, from one row in the cache
  return two.bytes == three - 2 * 4 * t * t + in_ones && two.flops == useful + 2 * t * t * d;
}

int main() {
  std::printf("          work  three kernels     two texts    one kernel\n");
  std::printf("    T    MFLOP         MB FLOP/B        MB FLOP/B        MB FLOP/B\n");
  bool right = show(256) & show(1024) & show(4096);
  constexpr Index t = 300;
  const std::vector<float> q = tutorial::filled(t * d, 1), k = tutorial::filled(t * d, 2),
                           v = tutorial::filled(t * d, 3);
  std::vector<float> p(t * t, -1), out(t * d, -1);
  using First = Scores<ridge::ops::cpu_kernel_configs[0]>;
  using Second = Mean<MatmulConfig{.m = 112, .n = 2 * 4096, .k = 4096}>;
  const cpu::Engine& engine = *cpu::find_engine(ridge::DType::f32, ridge::DType::f32);
  cpu::run_kernel<First>(scores<First>(t, q.data(), k.data(), p.data()), {1, t, t, d}, engine, 2);
  cpu::run_kernel<Second>(mean<Second>(t, p.data(), v.data(), out.data()), {1, t, d, t}, engine, 2);
  right &= tutorial::worst_of_attention(t, d, 1 / std::sqrt(static_cast<double>(d)), q.data(), k.data(), v.data(),
                                        out.data()) < 1e-5;
  return tutorial::ends(right);
}

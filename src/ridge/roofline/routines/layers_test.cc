// Layers of models with routines, groups or ragged lengths, at small sizes: compares every count with a literal loop
// nest that visits each combination of indices.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <vector>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

using Index = std::vector<std::int64_t>;

// Returns the number of points of an index space at which `holds` is true.
std::int64_t count_iterations(const Index& extents, const std::function<bool(const Index&)>& holds = nullptr) {
  std::int64_t points = 1, count = 0;
  for (const std::int64_t extent : extents) points *= extent;
  Index at(extents.size());
  for (std::int64_t point = 0; point < points; ++point) {
    std::int64_t rest = point;
    for (std::size_t i = extents.size(); i-- > 0; rest /= extents[i]) at[i] = rest % extents[i];
    count += !holds || holds(at);
  }
  return count;
}

struct Counts {
  std::int64_t flops = 0, bytes = 0;
  bool operator==(const Counts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Counts& c) { return out << c.flops << " FLOP " << c.bytes << " B"; }

// Returns the counts of each statement, in order.
std::vector<Counts> count_statements(const std::string& text) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 11) << "twelve lines at most";
  const auto e = explain(*program, testing::make_test_machine({{DType::bf16, 100}, {DType::e4m3, 200}}, 10, 3), {});
  EXPECT_TRUE(e.ok()) << (e.ok() ? "" : e.error().to_string());
  std::vector<Counts> out;
  for (const Prediction& p : e->ops)
    out.push_back({static_cast<std::int64_t>(*p.flops), static_cast<std::int64_t>(*p.bytes)});
  return out;
}

bool is_inside(std::int64_t position, std::int64_t size) { return position >= 0 && position < size; }

TEST(Layers, stem_of_resnet_50) {
  const auto counts = count_statements(
      "dims N = 2, K = 5, H = 12, W = H, P = H/2, Q = P\n"
      "x: bf16[N, 3, H, W]   w: bf16[K, 3, 7, 7]\n"
      "y: bf16[N, K, P, Q] = conv(x, w, stride = 2, padding = 3)");
  const std::int64_t taps = count_iterations({2, 5, 3, 6, 6, 7, 7}, [](const Index& i) {
    return is_inside(2 * i[3] + i[5] - 3, 12) && is_inside(2 * i[4] + i[6] - 3, 12);
  });
  EXPECT_EQ(counts[0], (Counts{2 * taps, 2 * (count_iterations({2, 3, 12, 12}) + count_iterations({5, 3, 7, 7}) +
                                              count_iterations({2, 5, 6, 6}))}));
}

TEST(Layers, generator_of_dcgan) {
  const auto counts = count_statements(
      "dims N = 2, C = 6, K = 3, H = 4, W = H, P = 2*H, Q = 2*W\n"
      "x: bf16[N, C, H, W]   w: bf16[C, K, 4, 4]\n"
      "y: bf16[N, K, P, Q] = conv_transpose(x, w, stride = 2, padding = 1)");
  const std::int64_t products = count_iterations({2, 6, 3, 4, 4, 4, 4}, [](const Index& i) {
    return is_inside(2 * i[3] + i[5] - 1, 8) && is_inside(2 * i[4] + i[6] - 1, 8);
  });
  EXPECT_EQ(counts[0], (Counts{2 * products, 2 * (count_iterations({2, 6, 4, 4}) + count_iterations({6, 3, 4, 4}) +
                                                  count_iterations({2, 3, 8, 8}))}));
}

TEST(Layers, up_convolution_of_u_net) {
  const auto counts = count_statements(
      "dims N = 2, C = 6, K = 3, H = 5, W = 4, P = 2*H, Q = 2*W\n"
      "x: bf16[N, C, H, W]   w: bf16[C, K, 2, 2]\n"
      "y: bf16[N, K, P, Q] = conv_transpose(x, w, stride = 2)");
  const std::int64_t out = count_iterations({2, 3, 10, 8});  // each output has one product for each channel
  EXPECT_EQ(counts[0],
            (Counts{2 * 6 * out, 2 * (count_iterations({2, 6, 5, 4}) + count_iterations({6, 3, 2, 2}) + out)}));
}

TEST(Layers, bottleneck_of_resnet_50) {
  const auto counts = count_statements(
      "dims N = 2, C = 6, M = 3, R = M, K = 8, H = 8, W = H, P = H/2, Q = W/2\n"
      "x: bf16[N, C, H, W]   w1: bf16[M, C, 1, 1]   w2: bf16[R, M, 3, 3]   w3: bf16[K, R, 1, 1]   ws: bf16[K, C, 1, "
      "1]\n"
      "a[N, M, H, W] = conv(x, w1)\n"
      "b[N, M, H, W] = relu(a)\n"
      "c[N, R, P, Q] = conv(b, w2, stride = 2, padding = 1)\n"
      "d[N, R, P, Q] = relu(c)\n"
      "e[N, K, P, Q] = conv(d, w3)\n"
      "s[N, K, P, Q] = conv(x, ws, stride = 2)\n"
      "y: bf16[N, K, P, Q] = relu(e + s)");
  const std::int64_t wide = count_iterations({2, 3, 8, 8}), narrow = count_iterations({2, 3, 4, 4}),
                     out = count_iterations({2, 8, 4, 4});
  const std::int64_t taps = count_iterations({2, 3, 3, 4, 4, 3, 3}, [](const Index& i) {
    return is_inside(2 * i[3] + i[5] - 1, 8) && is_inside(2 * i[4] + i[6] - 1, 8);
  });
  EXPECT_EQ(counts[0],
            (Counts{2 * count_iterations({2, 3, 6, 8, 8}), 2 * (count_iterations({2, 6, 8, 8}) + 18 + wide)}));
  EXPECT_EQ(counts[1], (Counts{wide, 4 * wide}));
  EXPECT_EQ(counts[2], (Counts{2 * taps, 2 * (wide + count_iterations({3, 3, 3, 3}) + narrow)}));
  EXPECT_EQ(counts[4], (Counts{2 * count_iterations({2, 8, 3, 4, 4}), 2 * (narrow + 24 + out)}));
  const auto even = [](const Index& i) { return i[2] % 2 == 0 && i[3] % 2 == 0; };  // Elements that a stride of 2 reads
  EXPECT_EQ(counts[5],
            (Counts{2 * count_iterations({2, 8, 6, 4, 4}), 2 * (count_iterations({2, 6, 8, 8}, even) + 48 + out)}));
  EXPECT_EQ(counts[6], (Counts{2 * out, 6 * out}));
}

TEST(Layers, embedding) {
  const auto counts = count_statements(
      "dims N = 6, V = 50, D = 8\n"
      "table: bf16[V, D]   ids: int32[N]   dy: bf16[N, D]\n"
      "x: bf16[N, D] = gather(table, ids over V)\n"
      "dtable: bf16[V, D] = scatter(dy, ids over V)");
  EXPECT_EQ(counts[0],
            (Counts{0, 2 * count_iterations({6, 8}) + 4 * count_iterations({6}) + 2 * count_iterations({6, 8})}));
  EXPECT_EQ(counts[1], (Counts{count_iterations({6, 8}), 2 * count_iterations({6, 8}) + 4 * count_iterations({6}) +
                                                             2 * count_iterations({50, 8})}));
}

// Two tokens that each select 2 of 4 experts: the mean number of experts over the 36 equally likely pairs of
// selections.
double mean_experts_reached() {
  double sum = 0;
  const auto pair = [](const Index& i, std::size_t at) { return i[at] < i[at + 1]; };
  count_iterations({4, 4, 4, 4}, [&](const Index& i) {
    if (!pair(i, 0) || !pair(i, 2)) return false;
    std::vector<bool> seen(4);
    for (const std::int64_t expert : i) seen[expert] = true;
    sum += static_cast<double>(std::count(seen.begin(), seen.end(), true));
    return true;
  });
  return sum / 36;
}

TEST(Layers, mixtral_with_routing) {
  const auto counts = count_statements(
      "dims B = 2, D = 6, F = 10, E = 4\n"
      "x: bf16[B, D]   r: bf16[E, D]   up: bf16[E, F, D]   gate: bf16[E, F, D]   down: bf16[E, D, F]\n"
      "s[B, E] = x * r\n"
      "p[B, E] = softmax(s over E)\n"
      "i[B, 2] = topk(p over E)\n"
      "u[B, 2, F] = routed(x, up, i over E)\n"
      "g[B, 2, F] = routed(x, gate, i over E)\n"
      "h[B, 2, F] = u * silu(g)\n"
      "o[B, 2, D] = routed(h, down, i over E)\n"
      "c[B, 2] = gather(p, i over E)\n"
      "y: bf16[B, D] = c * o");
  const double experts = mean_experts_reached();
  EXPECT_EQ(experts, 3);  // 4*(1 - (1 - 2/4)^2)
  const auto weights = static_cast<std::int64_t>(experts) * 2 * count_iterations({10, 6});
  EXPECT_EQ(counts[2], (Counts{count_iterations({2, 4}), 2 * count_iterations({2, 4}) + 4 * count_iterations({2, 2})}));
  EXPECT_EQ(counts[3], (Counts{2 * count_iterations({2, 2, 10, 6}), 2 * count_iterations({2, 6}) + weights +
                                                                        4 * count_iterations({2, 2}) +
                                                                        2 * count_iterations({2, 2, 10})}));
  EXPECT_EQ(counts[4], counts[3]);
  EXPECT_EQ(counts[6], (Counts{2 * count_iterations({2, 2, 6, 10}), 2 * count_iterations({2, 2, 10}) + weights +
                                                                        4 * count_iterations({2, 2}) +
                                                                        2 * count_iterations({2, 2, 6})}));
  EXPECT_EQ(counts[7],
            (Counts{0, 2 * count_iterations({2, 2}) + 4 * count_iterations({2, 2}) + 2 * count_iterations({2, 2})}));
}

TEST(Layers, routing_by_loads_and_with_a_capacity) {
  const std::string inputs = "dims B = 4, D = 6, F = 10, E = 4\nx: bf16[B, D]   w: bf16[E, F, D]   i: int32[B, 2]\n";
  const std::int64_t others =
      2 * count_iterations({4, 6}) + 4 * count_iterations({4, 2}) + 2 * count_iterations({4, 2, 10});
  const auto loads = count_statements(inputs + "u: bf16[B, 2, F] = routed(x, w, i over E, loads = (5, 0, 1, 2))");
  EXPECT_EQ(loads[0], (Counts{2 * count_iterations({8, 10, 6}), others + 2 * count_iterations({3, 10, 6})}));
  const auto capped =
      count_statements(inputs + "u: bf16[B, 2, F] = routed(x, w, i over E, loads = (5, 0, 1, 2), capacity = 2)");
  EXPECT_EQ(capped[0],
            (Counts{2 * count_iterations({2 + 0 + 1 + 2, 10, 6}), others + 2 * count_iterations({3, 10, 6})}));
  const auto even = count_statements(inputs + "u: bf16[B, 2, F] = routed(x, w, i over E, capacity = 1)");
  EXPECT_EQ(even[0].flops, 2 * count_iterations({4, 10, 6}));
}

TEST(Layers, scan_of_mamba) {
  const auto counts = count_statements(
      "dims B = 2, T = 5, D = 3, N = 4\n"
      "x: bf16[B, T, D]   dt: bf16[B, T, D]   A: f32[D, N]   Bt: bf16[B, T, N]   Ct: bf16[B, T, N]\n"
      "a[B, T, D, N] = exp(dt * A)\n"
      "b: bf16[B, T, D, N] = dt * x * Bt\n"
      "h: bf16[B, T, D, N] = scan(a * h + b over T)\n"
      "y: bf16[B, T, D] = h * Ct");
  const std::int64_t states = count_iterations({2, 5, 3, 4});
  EXPECT_EQ(counts[0],
            (Counts{2 * states, 2 * count_iterations({2, 5, 3}) + 4 * count_iterations({3, 4}) + 4 * states}));
  EXPECT_EQ(counts[2], (Counts{2 * states, 4 * states + 2 * states + 2 * states}));
  EXPECT_EQ(counts[3],
            (Counts{2 * states, 2 * states + 2 * count_iterations({2, 5, 4}) + 2 * count_iterations({2, 5, 3})}));
}

TEST(Layers, paged_decode) {
  const auto counts = count_statements(
      "dims B = 3, M = 4, H = 8, G = H/4, E = 6, P = 40\n"
      "q: bf16[B, H, E]   k: bf16[P, 16, G, E]   v: bf16[P, 16, G, E]   pages: int32[B, M]\n"
      "kk[B, M, 16, G, E] = gather(k, pages over P)\n"
      "vv[B, M, 16, G, E] = gather(v, pages over P)\n"
      "s[B, H, M, 16] = q * kk\n"
      "p[B, H, M, 16] = softmax(s * rsqrt(size(E)) over M, 16)\n"
      "o: bf16[B, H, E] = p * vv");
  const std::int64_t cache = count_iterations({3, 4, 16, 2, 6});
  EXPECT_EQ(counts[0], (Counts{0, 2 * cache + 4 * count_iterations({3, 4}) + 2 * cache}));
  EXPECT_EQ(counts[2], (Counts{2 * count_iterations({3, 8, 4, 16, 6}),
                               2 * count_iterations({3, 8, 6}) + 2 * cache + 2 * count_iterations({3, 8, 4, 16})}));
  EXPECT_EQ(counts[4], (Counts{2 * count_iterations({3, 8, 4, 16, 6}),
                               2 * count_iterations({3, 8, 4, 16}) + 2 * cache + 2 * count_iterations({3, 8, 6})}));
}

TEST(Layers, ragged_prefill) {
  const auto counts = count_statements(
      "dims S = (5, 2, 4), T = S, H = 3, E = 6\n"
      "q: bf16[S, H, E]   k: bf16[T, H, E]   v: bf16[T, H, E]\n"
      "s[S, H, T] = q * k\n"
      "p[S, H, T] = softmax(where((sequence(S) == sequence(T)) * (index(T) <= index(S)), s, -inf) over T)\n"
      "o: bf16[S, H, E] = p * v");
  const std::vector<int> of{0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2};
  const auto seen = [&](const Index& i) { return of[i[0]] == of[i[1]] && i[1] <= i[0]; };
  const std::int64_t pairs = count_iterations({11, 11}, seen);
  EXPECT_EQ(pairs, 15 + 3 + 10);
  EXPECT_EQ(counts[0].flops, 2 * 3 * 6 * pairs);
  EXPECT_EQ(counts[2].flops, 2 * 3 * 6 * pairs);
  EXPECT_EQ(counts[0].bytes, 4 * count_iterations({11, 3, 6}) + 2 * count_iterations({11, 3, 11}));
}

TEST(Layers, grouped_query_attention) {
  const auto counts = count_statements(
      "dims B = 2, S = 5, T = 7, H = 8, G = H/4, E = 6\n"
      "q: bf16[B, S, H, E]   k: bf16[B, T, G, E]   v: bf16[B, T, G, E]\n"
      "s[B, H, S, T] = q * k\n"
      "p[B, H, S, T] = softmax(s over T)\n"
      "o: bf16[B, S, H, E] = p * v");
  const std::int64_t scores = count_iterations({2, 8, 5, 7});
  EXPECT_EQ(counts[0], (Counts{2 * count_iterations({2, 8, 5, 7, 6}),
                               2 * (count_iterations({2, 5, 8, 6}) + count_iterations({2, 7, 2, 6}) + scores)}));
  EXPECT_EQ(counts[2], (Counts{2 * count_iterations({2, 8, 5, 7, 6}),
                               2 * (scores + count_iterations({2, 7, 2, 6}) + count_iterations({2, 5, 8, 6}))}));
}

// A batched bilinear form, from the documentation of torch.einsum.
TEST(Layers, einsum_of_three) {
  const auto counts = count_statements("dims b = 3, n = 4, a = 5, m = 6\n'bn,anm,bm->ba'");
  ASSERT_EQ(counts.size(), 2u);
  std::int64_t least = INT64_MAX;  // Minimum over all orders: two of the three first, then the third
  for (const auto& [first, second] :
       {std::pair(count_iterations({3, 4, 5, 6}), count_iterations({3, 5, 6})),  // (X Y) W
        {count_iterations({3, 5, 4, 6}), count_iterations({3, 5, 4})},           // (Y W) X
        {count_iterations({3, 4, 6}) / 2, count_iterations({3, 5, 4, 6})}})      // (X W) Y: no sum at first
    least = std::min(least, 2 * (first + second));
  EXPECT_EQ(counts[0].flops + counts[1].flops, least);
}

// Weights and input of a projection in blocks of 32: 4 bits per element, plus a scale of 8 bits per 32 elements.
TEST(Layers, projection_in_mxfp4) {
  const auto counts = count_statements(
      "dims B = 3, D = 64, F = 7\n"
      "x: bf16[B, D]   w: mxfp4[F, D]\n"
      "q[B, D] = quantize(x, mxfp8)\n"
      "y: bf16[B, F] = q * w");
  const auto begins = [](const Index& i) { return i[1] % 32 == 0; };
  const std::int64_t x = count_iterations({3, 64}), scales_x = count_iterations({3, 64}, begins),
                     w = count_iterations({7, 64}), scales_w = count_iterations({7, 64}, begins);
  EXPECT_EQ(counts[0], (Counts{3 * x, 2 * x + x + scales_x}));
  EXPECT_EQ(counts[1],
            (Counts{2 * count_iterations({3, 64, 7}), x + scales_x + w / 2 + scales_w + 2 * count_iterations({3, 7})}));
}

}  // namespace
}  // namespace ridge

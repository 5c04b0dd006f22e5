// Building blocks of step kernels (steps.h) on a CPU: vectors, panels of rows, elementary functions, and the product of
// a panel with columns. Included by files that are compiled for one instruction set: every name that is compiled is in
// an unnamed namespace.
#pragma once

#include <algorithm>
#include <cmath>

#include "ridge/tile/steps.h"

namespace ridge::tile {
namespace {

// Element type of tiles that are converted from any storage format to `Real` when they are loaded.
template <class Real> struct ComputeAs {};

#if defined(__AVX512F__)
constexpr int vector_bytes = 64, max_vectors = 4;
#elif defined(__AVX__)
constexpr int vector_bytes = 32, max_vectors = 2;
#else
constexpr int vector_bytes = 16, max_vectors = 2;
#endif
template <class Real> struct Vector {
  typedef Real Lanes __attribute__((vector_size(vector_bytes), may_alias));
  static constexpr int lanes = vector_bytes / sizeof(Real);
};
// Number of rows of a panel.
template <class Real, int M> inline constexpr int panel_rows =
    M < max_vectors* Vector<Real>::lanes ? M : max_vectors* Vector<Real>::lanes;

// M x N elements in panels of rows: element (r, c) of a panel is at c * panel + r.
template <class Real_, int M, int N> struct RowPanels {
  using Real = Real_;
  static constexpr int rows = M, cols = N, panel = panel_rows<Real, M>, panels = M / panel;
  static_assert(M % panel == 0, "rows must be whole panels");
  alignas(64) Real v[M * N];
  int width = N;  // number of valid columns

  int k_steps() const { return width; }  // length of k if this is a left operand
  [[gnu::always_inline]] Real* panel_data(int p) { return v + p * (panel * N); }
  [[gnu::always_inline]] const Real* panel_data(int p) const { return v + p * (panel * N); }
};

// Returns 2^x with relative error 2^-22, or 0 for x < -126: x is split into an integer, which becomes the exponent, and
// a remainder of at most 1/2. The polynomial has the least relative error among those of degree 5 that are 1 at 0.
[[gnu::always_inline]] inline float exp2_of(float x) {
  const float low = x < -126 ? -126 : x, y = low > 127 ? 127 : low;
  const float raised = y + (0x1.8p23f + 127), rest = y - (raised - (0x1.8p23f + 127));
  const float power = __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, raised) << 23);
  float sum = 0.00132647273f * rest + 0.00967151299f;
  sum = sum * rest + 0.0555073358f;
  sum = sum * rest + 0.240222424f;
  sum = sum * rest + 0.693147004f;
  sum = sum * rest + 1;
  return x < -126 ? 0 : sum * power;
}
[[gnu::always_inline]] inline double exp2_of(double x) { return std::exp2(x); }
template <class Real> [[gnu::always_inline]] inline Real inverse_of(Real x) { return 1 / x; }
template <class Real> [[gnu::always_inline]] inline Real log_of(Real x) { return std::log(x); }

}  // namespace

namespace cpu {
namespace {

// Right operand of a product: element k of column c is at c * col + k * step.
template <class Real> struct RightColumns {
  const Real* data;
  Index col, step;
  using Lanes = typename Vector<Real>::Lanes;
  [[gnu::always_inline]] static Lanes multiply_add(Lanes sum, Lanes left, Real right) { return sum + left * right; }
};
template <class Real> RightColumns(const Real*, Index, Index) -> RightColumns<Real>;

// Computes sums[c][r] (+)= sum over k of left[k][r] * right(c, k) for `count` columns of a panel.
template <int panel, int count, class Unit, class Right, class Real>
[[gnu::always_inline]] inline void multiply_columns(const Unit* left, const Right& right, int depth, Real* sums,
                                                    bool add) {
  using V = typename Vector<Real>::Lanes;
  using L = typename Vector<Unit>::Lanes;
  constexpr int vectors = panel / Vector<Real>::lanes;
  V part[count][vectors];
  V* const to = reinterpret_cast<V*>(sums);
  const L* l = reinterpret_cast<const L*>(left);
  const auto* r = right.data;
#pragma GCC unroll 8
  for (int c = 0; c < count; ++c)
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) part[c][i] = add ? to[c * vectors + i] : V{};
  for (int k = 0; k < depth; ++k, l += vectors, r += right.step)
#pragma GCC unroll 8
    for (int c = 0; c < count; ++c)
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) part[c][i] = Right::multiply_add(part[c][i], l[i], r[c * right.col]);
#pragma GCC unroll 8
  for (int c = 0; c < count; ++c)
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) to[c * vectors + i] = part[c][i];
}

template <int panel, int count = 6, class Unit, class Right, class Real>
[[gnu::always_inline]] inline void multiply_panel(const Unit* left, Right right, int columns, int depth, Real* sums,
                                                  bool add) {
  for (; columns >= count; columns -= count, right.data += count * right.col, sums += count * panel)
    multiply_columns<panel, count>(left, right, depth, sums, add);
  if constexpr (count > 1)
    if (columns > 0) multiply_panel<panel, count / 2>(left, right, columns, depth, sums, add);
}

}  // namespace
}  // namespace cpu
}  // namespace ridge::tile

// Runs a step kernel (tile/steps.h) on a CPU, one item per thread. Resident tiles and sums are in panels of rows,
// column by column: element (r, c) of a panel is at c * panel + r, so that a few vectors hold the rows of a column. A
// product multiplies an element of the right operand by a vector of rows, and all other operations work on vectors of
// rows. So no sum crosses lanes, and keys and values are read row by row as in memory. A step of 96 keys of 128
// elements is 3.1 million multiply-adds and 96 KiB of operands. Included by one file for each instruction set: every
// name that is compiled is in an unnamed namespace.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "ridge/base/dtype.h"
#include "ridge/base/float16.h"
#include "ridge/tile/cpu/panels.h"
#include "ridge/tile/step_ring.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace ridge::tile {

// A row-major tile of a matrix. It has fewer valid rows (`height`) at the end of the matrix.
template <class Real, int Rows, int Cols> struct SharedTile<ComputeAs<Real>, Rows, Cols> {
  using type = ComputeAs<Real>;
  static constexpr int rows = Rows, cols = Cols;
  // A power of two would map the rows to few L1 sets.
  static constexpr int stride = Cols + 16;
  alignas(64) Real v[Rows * stride];
  int height = 0, width = 0;
};
// A resident tile, in panels of rows.
template <class Real, int M, int N> struct ResidentTile<ComputeAs<Real>, M, N> : RowPanels<Real, M, N> {
  using type = ComputeAs<Real>;
};

template <class Real> struct AccumulatedType<ComputeAs<Real>> { using type = ComputeAs<Real>; };

template <class Real, int M, int N, int Groups> struct Accumulator<M, N, Groups, ComputeAs<Real>>
    : RowPanels<Real, M, N> {
  bool is_written = false;
  int adds_before = 0;  // number of adds by other items that precede the add of these sums
};
template <class Real, int M, int Groups> struct Accumulator<M, 1, Groups, ComputeAs<Real>> : RowPanels<Real, M, 1> {
  Accumulator() : Accumulator(zero_sum) {}
  Accumulator(Zero) { std::fill_n(this->v, M, Real{0}); }
  Accumulator(NegativeInfinity) { std::fill_n(this->v, M, -static_cast<Real>(INFINITY)); }
};
template <class Real, int M, int N, int Groups> struct RegisterOperand<M, N, Groups, ComputeAs<Real>>
    : RowPanels<Real, M, N> {};

namespace cpu {
namespace {

// Converts elements at … at + n - 1 to Real.
template <class Real> void widen_row(const void* from, DType dtype, Index at, int n, Real* to) {
  switch (dtype) {
    case DType::bf16: {
      const auto* x = static_cast<const Bf16*>(from) + at;
      for (int i = 0; i < n; ++i) to[i] = to_float(x[i]);
      return;
    }
    case DType::f16: {
      const auto* x = static_cast<const F16*>(from) + at;
      int i = 0;
#ifdef __F16C__
      for (; i + 8 <= n; i += 8) {
        float wide[8];
        _mm256_storeu_ps(wide, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
        for (int j = 0; j < 8; ++j) to[i + j] = wide[j];
      }
#endif
      for (; i < n; ++i) to[i] = to_float(x[i]);
      return;
    }
    default: {
      const auto* x = static_cast<const float*>(from) + at;
      for (int i = 0; i < n; ++i) to[i] = x[i];
    }
  }
}
inline void store_rounded(float x, DType dtype, void* to, Index at) {
  if (dtype == DType::bf16)
    static_cast<Bf16*>(to)[at] = to_bf16(x);
  else if (dtype == DType::f16)
    static_cast<F16*>(to)[at] = to_f16(x);
  else
    static_cast<float*>(to)[at] = x;
}
inline Index matrix_offset(const Matrices& x, int matrix) {
  return matrix / x.inner * x.outer_stride + matrix % x.inner * x.inner_stride;
}

// Returns element (c, r) of panel p of x; if x has a single column, the column applies to all c.
template <class X> [[gnu::always_inline]] inline auto matching_element(const X& x, int p, int c, int r) {
  return x.panel_data(p)[(X::cols == 1 ? 0 : c) * X::panel + r];
}
// One value per column, the same for all rows.
template <class Real> struct PerColumn { const Real* v; };
template <class Real> [[gnu::always_inline]] inline Real matching_element(const PerColumn<Real>& x, int, int c, int) {
  return x.v[c];
}

// Sets to[r * to_row + c] = from[c * from_col + r] in squares of 8 x 8, each of which stays in registers.
template <class Real, int rows, int cols>
[[gnu::always_inline]] inline void transpose_squares(const Real* from, int from_col, Real* to, int to_row) {
  constexpr int square = 8;
  static_assert(rows % square == 0 && cols % square == 0, "transpose: rows and columns x8");
  for (int r = 0; r < rows; r += square)
    for (int c = 0; c < cols; c += square)
#pragma GCC unroll 8
      for (int i = 0; i < square; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < square; ++j) to[(r + i) * to_row + c + j] = from[(c + j) * from_col + r + i];
}

template <class View> Index row_offset(const View& x, Index row) {
  const PageTable& pages = x.page_table;
  if (pages.table == nullptr) return row * x.row_stride;
  return pages.table[row / pages.page_rows] * pages.page_stride + row % pages.page_rows * x.row_stride;
}

// Loads a tile from a matrix. The overloads for bf16 pairs are in bf16_pairs.h.
template <class Real, int M, int N, class View>
void load_tile(ResidentTile<ComputeAs<Real>, M, N>& tile, const View& view, Index matrix_start, int first) {
  using Tile = ResidentTile<ComputeAs<Real>, M, N>;
  tile.width = static_cast<int>(view.cols);
  Real row[N];
  for (int p = 0; p < Tile::panels; ++p)
    for (int r = 0; r < Tile::panel; ++r) {
      const Index at = first + p * Tile::panel + r;
      if (at < view.rows)
        widen_row(view.data, view.target.dtype, matrix_start + row_offset(view, at), tile.width, row);
      else
        std::fill_n(row, tile.width, Real{0});
      for (int c = 0; c < tile.width; ++c) tile.panel_data(p)[c * Tile::panel + r] = row[c];
    }
}
template <class Real, int Rows, int Cols, class View>
void load_tile(SharedTile<ComputeAs<Real>, Rows, Cols>& tile, const View& view, Index matrix_start, int first) {
  tile.height = static_cast<int>(std::clamp<Index>(view.rows - first, 0, Rows));
  tile.width = static_cast<int>(view.cols);
  for (int r = 0; r < tile.height; ++r)
    widen_row(view.data, view.target.dtype, matrix_start + row_offset(view, first + r), tile.width,
              tile.v + r * tile.stride);
}
template <class Real, int R, int C>
RightColumns<Real> columns_of_transpose(const SharedTile<ComputeAs<Real>, R, C>& tile) {
  return {tile.v, Index{tile.stride}, Index{1}};
}
template <class Real, int M, int N, class From> void copy_tile(RowPanels<Real, M, N>& to, const From& from) {
  to.width = from.width;
  for (int p = 0; p < to.panels; ++p) std::copy_n(from.panel_data(p), to.panel * to.width, to.panel_data(p));
}

struct CpuStepPosition {
  StepItem item;
  int step_index = 0, step_count = 0;
  int round_index = 0, round_step = 0, round_steps = 1;
  int matrix() const { return item.matrix; }
  int row() const { return item.row; }
  int step() const { return step_index; }
  int steps() const { return step_count; }
  bool is_first() const { return step_index == 0; }
  int round() const { return round_index; }
  int step_of_round() const { return round_step; }
  bool is_last() const { return step_index == step_count; }
  void advance() {
    ++step_index;
    if (++round_step < round_steps) return;
    round_step = 0;
    ++round_index;
  }
};

struct CpuStepLoader : CpuStepPosition {
  template <class Tile, class View> void load(Tile& tile, const View& view, int matrix, int first, int = 0) const {
    load_tile(tile, view, matrix_offset(view, matrix), first);
  }
};

// The operations of a kernel's `compute`, compiled for the first step, the middle steps and the last step.
template <bool first_, bool last_> struct CpuStepCompute : CpuStepPosition {
  static constexpr bool first = first_, last = last_;
  Range rows;
  Range own_rows() const { return rows; }

  template <class Sum, class A, class B> void mma(Sum& sum, const A& a, Transposed<B> b) const {
    static_assert(A::rows == Sum::rows && B::rows == Sum::cols && A::cols == B::cols,
                  "mma: [m, k] x [n, k] transposed -> [m, n]");
    add_product(sum, a, columns_of_transpose(b.tile), b.tile.height);
  }
  template <class Sum, class A, class B> void mma(Sum& sum, const A& a, const B& b) const {
    static_assert(A::rows == Sum::rows && B::cols == Sum::cols && A::cols == B::rows, "mma: [m, k] x [k, n] -> [m, n]");
    if constexpr (requires { B::panel; })
      add_resident_product(sum, a, b);
    else if constexpr (requires { A::pairs; })
      add_product(sum, a, interleave_row_pairs(b).columns(), b.width);
    else
      add_product(sum, a, RightColumns{b.v, Index{1}, Index{B::stride}}, b.width);
  }
  template <class X> void wait_for_product(const X&) const {}
  template <class X, class F, class... Others> void map(X& x, const F& f, const Others&... others) const {
    map_elements(x, f, others...);
  }
  template <class X, class F> void mask_columns(X& x, const F& columns, float outside = -INFINITY) const {
    for (int p = 0; p < X::panels; ++p) {
      int begin[X::panel], end[X::panel];
      for (int r = 0; r < X::panel; ++r) {
        const IntRange unmasked = columns(static_cast<int>(rows.begin) + p * X::panel + r);
        begin[r] = unmasked.begin;
        end[r] = unmasked.end;
      }
      auto* v = x.panel_data(p);
      for (int c = 0; c < x.width; ++c)
        for (int r = 0; r < X::panel; ++r) {
          auto& each = v[c * X::panel + r];
          each = ((c >= begin[r]) & (c < end[r])) ? each : outside;
        }
    }
  }
  template <class X, class F> bool has_any(const X& x, const F& f) const {
    bool holds = false;
    for (int p = 0; p < X::panels; ++p)
      for (int i = 0; i < X::panel * x.width; ++i) holds |= f(x.panel_data(p)[i]);
    return holds;
  }
  template <class Row, class X> void reduce(Row& into, const X& x, Max) const {
    for (int p = 0; p < X::panels; ++p) {
      auto* max_so_far = into.panel_data(p);
      const auto* v = x.panel_data(p);
      for (int c = 0; c < x.width; ++c)
        for (int r = 0; r < X::panel; ++r)
          max_so_far[r] = v[c * X::panel + r] > max_so_far[r] ? v[c * X::panel + r] : max_so_far[r];
    }
  }
  template <class Row, class X> void reduce(Row& into, const X& x, Add, const Row& times) const {
    for (int p = 0; p < X::panels; ++p) {
      auto* sum = into.panel_data(p);
      const auto* v = x.panel_data(p);
      for (int r = 0; r < X::panel; ++r) sum[r] *= times.panel_data(p)[r];
      for (int c = 0; c < x.width; ++c)
        for (int r = 0; r < X::panel; ++r) sum[r] += v[c * X::panel + r];
    }
  }
  template <class To, class From> void copy(To& to, const From& from) const { copy_tile(to, from); }
  // Copies the transpose of `from` to a resident tile; missing columns become zeros. Resident tiles are const in
  // kernels, because only this operation writes them.
  template <class To, class From> void copy(const To& to, Transposed<From> from) const {
    static_assert(To::rows == From::cols && To::cols == From::rows, "copy: [m, n] transposed -> [n, m]");
    constexpr int high = From::panel, wide = To::panel;
    To& into = const_cast<To&>(to);
    into.width = From::rows;
    for (int q = 0; q < To::panels; ++q)
      for (int p = 0; p < From::panels; ++p)
        transpose_squares<typename To::Real, high, wide>(from.tile.panel_data(p) + q * wide * high, high,
                                                         into.panel_data(q) + p * high * wide, wide);
    for (int c = from.tile.width; c < From::cols; ++c)
      for (int r = 0; r < From::rows; ++r) into.panel_data(c / wide)[r * wide + c % wide] = 0;
  }
  // These functions are empty, because one thread runs an item.
  void arrive_at_barrier() const {}
  void wait_at_barrier() const {}
  template <class X> int first_own_column(const X&) const { return 0; }
  template <class Tile, class X> auto column_values(const Tile& tile, int from, const X&) const {
    return PerColumn{tile.v + from};
  }
  // Records that `before` adds of other items to the tile must precede the add of x.
  template <class X> void request_turn(const SumsInMemory&, X& x, int, int, int before) const {
    x.adds_before = before;
  }
  // Adds x to a tile of sums in memory and marks x as empty. Items start in the order of their adds, so the add waits
  // only for running items. It yields after a while, in case the system has suspended the other thread.
  template <class X> void add_to_memory(const SumsInMemory& view, X& x, int matrix, int tile) const {
    constexpr int polls_before_yield = 2000;
    const Index at = Index{matrix} * view.tiles_per_matrix + tile;
    const int size = X::panel * x.width;
    float* to = view.data + at * X::panels * size;
    const std::atomic_ref<int> adds_done(view.add_counts[at]);
    for (int i = 0; adds_done.load(std::memory_order_acquire) != x.adds_before; ++i)
      if (i >= polls_before_yield) std::this_thread::yield();
    for (int p = 0; p < X::panels; ++p, to += size)
      for (int i = 0; i < size; ++i) to[i] += x.panel_data(p)[i];
    adds_done.store(x.adds_before + 1, std::memory_order_release);
    x.is_written = false;
  }

  template <class X, class F, class... Others> static void map_elements(X& x, const F& f, const Others&... others) {
    for (int p = 0; p < X::panels; ++p) {
      auto* v = x.panel_data(p);
      for (int c = 0; c < x.width; ++c)
#pragma GCC ivdep
        for (int r = 0; r < X::panel; ++r)
          v[c * X::panel + r] = f(v[c * X::panel + r], matching_element(others, p, c, r)...);
    }
  }

 private:
  template <class Sum, class A, class Right>
  static void add_product(Sum& sum, const A& a, const Right& right, int columns) {
    sum.width = columns;
    for (int p = 0; p < Sum::panels; ++p)
      multiply_panel<Sum::panel>(a.panel_data(p), right, columns, a.k_steps(), sum.panel_data(p), sum.is_written);
    sum.is_written = true;
  }
  // Multiplies with a resident right operand: element (k, c) of one of its panels is at c * panel + k.
  template <class Sum, class A, class B> static void add_resident_product(Sum& sum, const A& a, const B& b) {
    sum.width = b.width;
    for (int p = 0; p < Sum::panels; ++p)
      for (int k = 0; k < B::panels; ++k)
        multiply_panel<Sum::panel>(a.panel_data(p) + k * B::panel * Sum::panel,
                                   RightColumns{b.panel_data(k), Index{B::panel}, Index{1}}, b.width, B::panel,
                                   sum.panel_data(p), sum.is_written || k > 0);
    sum.is_written = true;
  }
};

// The operations of a kernel's `store`.
struct CpuStepStore : CpuStepPosition {
  template <class X, class F, class... Others> void map(X& x, const F& f, const Others&... others) const {
    CpuStepCompute<false, false>::map_elements(x, f, others...);
  }
  template <class View, class X> void store(const View& view, const X& x) const {
    if (view.data == nullptr) return;
    const Index matrix_start = matrix_offset(view, matrix());
    for (int p = 0; p < X::panels; ++p)
      for (int r = 0; r < X::panel; ++r) {
        const Index at = row() + p * X::panel + r;
        if (at >= view.rows) return;
        for (int c = 0; c < x.width; ++c)
          store_rounded(static_cast<float>(x.panel_data(p)[c * X::panel + r]), view.target.dtype,
                        const_cast<void*>(view.data), matrix_start + at * view.row_stride + c);
      }
  }
};

// Tiles of the thread that runs an item.
template <class Kernel> struct StepTiles {
  typename Kernel::Resident resident;
  typename Kernel::Stage stage;
};

template <class Kernel, bool first, bool last> void run_step(const CpuStepPosition& at, StepTiles<Kernel>& memory,
                                                             typename Kernel::State& state,
                                                             const typename Kernel::Globals& g) {
  if constexpr (!(last && InLockstep<Kernel>)) {
    CpuStepLoader loader{at};
    Kernel::load(loader, memory.stage, g);
  }
  CpuStepCompute<first, last> compute{at, {at.row(), Kernel::config.m}};
  Kernel::compute(compute, state, memory.resident, memory.stage, g);
}

template <class Kernel>
void run_item(const StepItem& item, StepTiles<Kernel>& memory, const typename Kernel::Globals& g) {
  CpuStepPosition at{item};
  const StepCount steps = Kernel::count_steps(at, g);
  at.step_count = steps.count;
  at.round_steps = steps.steps_per_round;
  CpuStepLoader loader{at};
  Kernel::load_resident(loader, memory.resident, g);
  typename Kernel::State state;
  run_step<Kernel, true, false>(at, memory, state, g);
  for (at.advance(); at.step_index < at.step_count; at.advance()) run_step<Kernel, false, false>(at, memory, state, g);
  run_step<Kernel, false, true>(at, memory, state, g);
  CpuStepStore store{at};
  Kernel::store(store, state, g);
}

}  // namespace
}  // namespace cpu
}  // namespace ridge::tile

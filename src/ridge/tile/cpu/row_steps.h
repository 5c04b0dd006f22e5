// Building blocks of the loops over a row (rows.h): a pass of a kernel over one row or two, a pair of vectors at a
// time, and the loop that writes one row while it reads others.
#pragma once

#include <utility>

#include "ridge/ops/function/vector_math.h"
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/tile/rows.h"

namespace ridge::tile {
namespace {

// Returns 2^64 e^x for x <= 0, as accurate as results of type Y need.
template <class Y, class V>
requires requires { V::lanes; }
[[gnu::always_inline]] inline V scaled_exp(V x) {
  if constexpr (sizeof(Y) == 2)
    return ops::exp_times_2_64_16bit(x);
  else
    return ops::exp_times_2_64(x);
}

}  // namespace

namespace cpu {
namespace {

using ops::abs, ops::lane_max, ops::broadcast, ops::load_partial, ops::load_pair, ops::max, ops::min,
    ops::store_partial, ops::store_pair, ops::sum_lanes, ops::VectorPair;
using ops::PrefetchL2, ops::prefetch_lines, ops::PrefetchFor, ops::PrefetchL1;
struct NoPrefetch {};
struct PrefetchNearL1 {
  static constexpr int distance_bytes = 1024, locality = 3;
};

// Calls f(0) … f(n - 1) with compile-time constants as arguments.
template <int n, class F> [[gnu::always_inline]] inline void for_each(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, n>{});
}

template <class V, class F> float fold_lanes(V a, const F& f) {
  alignas(64) float lanes[V::lanes];
  a.store(lanes);
  float all = lanes[0];
  for (const float each : lanes) all = f(all, each);
  return all;
}
template <class V> float max_lane(V a) {
  return fold_lanes(a, [](float max_so_far, float each) { return each > max_so_far ? each : max_so_far; });
}

// `Max` may ignore NaN, because softmax propagates NaN through its sum of exponentials.
template <class V> V accumulate_lanes(Max, V a, V x) { return lane_max(x, a); }
template <class V> V accumulate_lanes(MaxOrNan, V a, V x) { return max(a, x); }
template <class V> V accumulate_lanes(MinOrNan, V a, V x) { return min(a, x); }
template <class V> V accumulate_lanes(Add, V a, V x) { return a + x; }
template <class V> V accumulate_lanes(SumOfSquares, V a, V x) { return fma(x, x, a); }
template <class V> V combine_partials(Max, V a, V b) { return lane_max(b, a); }
template <class V> V combine_partials(MaxOrNan, V a, V b) { return max(a, b); }
template <class V> V combine_partials(MinOrNan, V a, V b) { return min(a, b); }
template <class V, class Kind> V combine_partials(Kind, V a, V b) { return a + b; }
template <class V> float reduce_lanes(Max, V a) { return max_lane(a); }
template <class V> float reduce_lanes(MaxOrNan, V a) {
  return fold_lanes(a, [](float max_so_far, float each) { return combine_values(MaxOrNan{}, max_so_far, each); });
}
template <class V> float reduce_lanes(MinOrNan, V a) {
  return fold_lanes(a, [](float min_so_far, float each) { return combine_values(MinOrNan{}, min_so_far, each); });
}
template <class V, class Kind> float reduce_lanes(Kind, V a) { return sum_lanes(a); }
template <class Kind> constexpr float identity_value = 0;
template <> constexpr float identity_value<Max> = -__builtin_inff();
template <> constexpr float identity_value<MaxOrNan> = identity_value<Max>;
template <> constexpr float identity_value<MinOrNan> = __builtin_inff();

// `vectors_` vectors of each of `rows_` rows. A single vector applies to all columns, a single row to all rows.
template <class V, int rows_, int vectors_> struct RowVectors {
  static constexpr int rows = rows_, vectors = vectors_;
  V v[rows_ * vectors_];
  template <int r, int j> [[gnu::always_inline]] V of() const {
    return v[(rows == 1 ? 0 : r) * vectors + (vectors == 1 ? 0 : j)];
  }
};

// Results of the passes for one row.
template <int passes> struct PassResults { float of[std::max(passes - 1, 1)]; };
// True if a row's results may be inaccurate, so that the row must be recomputed.
template <class Kernel> bool is_inaccurate(const PassResults<Kernel::passes>& numbers) {
  return [&]<int... i>(std::integer_sequence<int, i...>) {
    if constexpr (requires { Kernel::is_inaccurate(numbers.of[i]...); })
      return Kernel::is_inaccurate(numbers.of[i]...);
    else
      return false;
  }
  (std::make_integer_sequence<int, Kernel::passes - 1>{});
}

// Memory for the values that a pass keeps for later passes.
struct RowScratch {
  float* data;
  Index row_stride;
};

// True if a pair of vectors has the even and the odd elements of a row of bf16, which are faster to convert.
template <class V, class StorageFormat> constexpr bool uses_even_odd = false;
template <class V, class... T> constexpr bool uses_even_odd<V, RowFormats<T...>> = V::has_even_odd &&
                                                                                   (std::is_same_v<T, Bf16> && ...);

// The argument `at` of a kernel's pass: operations on elements i … i + count - 1 of each row; k is the number of the
// pair of vectors within a loop iteration.
template <class Step, int vectors> struct PassOperations {
  using V = typename Step::Vector;
  const Step& step;
  Index i;
  int count, k;

  template <class T, int which> [[gnu::always_inline]] auto load(const RowsView<T, which>& view) const {
    using Prefetch = typename Step::PrefetchPolicy;
    constexpr int vectors_per_line = 64 / static_cast<int>(vectors * V::lanes * sizeof(T));
    if constexpr (vectors > 1 && !std::is_same_v<Prefetch, NoPrefetch>)
      if (vectors_per_line < 2 || k % vectors_per_line == 0)  // no lambda: g++ would remove it as having no effect
        for (int r = 0; r < Step::rows; ++r)
          prefetch_lines<Prefetch, vectors * V::lanes>(view.data + (step.position.row + r) * view.row_stride + i);
    return read_part<Step::rows, Step::even_odd>(view.data + step.position.row * view.row_stride + i, view.row_stride);
  }
  template <class T> [[gnu::always_inline]] auto load(const ColumnsView<T>& view) const {
    return read_part<1, Step::even_odd>(view.data + i, 0);
  }
  template <class F, class... Others>
  [[gnu::always_inline]] void map(RowVectors<V, Step::rows, vectors>& x, const F& f, const Others&... others) const {
    for_each<Step::rows>([&](auto r) {
      for_each<vectors>([&](auto j) { x.v[r * vectors + j] = f(x.v[r * vectors + j], others.template of<r, j>()...); });
    });
  }
  [[gnu::always_inline]] void save_row(const RowVectors<V, Step::rows, vectors>& x) const {
    for_each<Step::rows>([&](auto r) {
      write_part<false>(x, r, step.position.scratch.data + r * step.position.scratch.row_stride + i, false);
    });
  }
  [[gnu::always_inline]] auto saved_row() const {
    return read_part<Step::rows, false>(step.position.scratch.data + i, step.position.scratch.row_stride);
  }
  template <class X, class Kind, class Leaves = Identity>
  [[gnu::always_inline]] PassResult<Kind, X, Leaves> reduce(const X& x, Kind, Leaves = {}) const {
    return {x};
  }
  template <class X, class Kind>
  [[gnu::always_inline]] PassResult<Kind, X, Identity> reduce_columns(const X& x, Kind) const {
    return {x};
  }
  template <class T>
  [[gnu::always_inline]] void store(const RowsOut<T>& view, const RowVectors<V, Step::rows, vectors>& x) const {
    for_each<Step::rows>([&](auto r) {
      write_part<Step::even_odd>(x, r, view.data + (step.position.row + r) * view.row_stride + i, step.position.stream);
    });
  }

 private:
  template <int rows, bool even_odd, class T> [[gnu::always_inline]] auto read_part(const T* from, Index stride) const {
    RowVectors<V, rows, vectors> out;
    for_each<rows>([&](auto r) {
      if constexpr (vectors == 1) out.v[r] = load_partial<V>(from + r * stride, count);
      for_each<vectors / 2>([&](auto pair) {
        const VectorPair<V> loaded = load_pair<V, even_odd>(from + r * stride + 2 * pair * V::lanes);
        out.v[vectors * r + 2 * pair] = loaded.a;
        out.v[vectors * r + 2 * pair + 1] = loaded.b;
      });
    });
    return out;
  }
  template <bool even_odd, int r, class T>
  [[gnu::always_inline]] void write_part(const RowVectors<V, Step::rows, vectors>& x, std::integral_constant<int, r>,
                                         T* to, bool stream) const {
    if constexpr (vectors > 1)
      for_each<vectors / 2>([&](auto pair) {
        store_pair<V, even_odd>({x.v[vectors * r + 2 * pair], x.v[vectors * r + 2 * pair + 1]},
                                to + 2 * pair * V::lanes, stream);
      });
    else if constexpr (std::is_same_v<T, float>)
      x.v[r].store_partial(to, count);
    else
      store_partial(x.v[r], to, count);
  }
};

template <class Step> using PassReduction =
    decltype(std::declval<const Step&>().run_pass_at(std::declval<const PassOperations<Step, 2>&>()));

// The row that a pass processes (or the first of two rows), and the inputs of the pass.
template <class Kernel> struct RowPosition {
  const typename Kernel::Globals& g;
  Index row;
  RowScratch scratch;
  const PassResults<Kernel::passes>* numbers;
  bool stream;
};

// A pass of a kernel over `rows_` rows. `pairs_` pairs of vectors accumulate each row, to hide the latency of the adds.
template <class V, class Kernel, int pass, int rows_, int pairs_, class Prefetch> class RowStep {
 public:
  using Vector = V;
  using PrefetchPolicy = Prefetch;
  using KernelPosition = RowPosition<Kernel>;
  static constexpr int rows = rows_, pairs = pairs_;
  static constexpr bool even_odd = uses_even_odd<V, typename Kernel::Stored>;

  [[gnu::always_inline]] explicit RowStep(const KernelPosition& at) : RowStep(at, std::make_index_sequence<parts>()) {}

  [[gnu::always_inline]] void run_pair(Index i, int k = 0) {
    const PassOperations<RowStep, 2> at{*this, i, 2 * V::lanes, k};
    if constexpr (is_last)
      run_pass_at(at);
    else
      for_each<rows>([&, x = run_pass_at(at)](auto r) {
        V* const part = part_ + 2 * sums * r + 2 * (k % sums);
        part[0] = accumulate_lanes(typename decltype(x)::Kind{}, part[0], x.of.v[2 * r]);
        part[1] = accumulate_lanes(typename decltype(x)::Kind{}, part[1], x.of.v[2 * r + 1]);
      });
  }
  // Runs the last pass on two pairs of vectors. Both pairs are read before either is written.
  [[gnu::always_inline]] void run_two_pairs(Index i) const {
    run_pass_at(PassOperations<RowStep, 4>{*this, i, 4 * V::lanes, 0});
  }
  // Runs the pass one vector at a time on elements after the last full pair. A separate step object is used, because
  // taking the address of this object would move its members from registers to memory.
  [[gnu::always_inline]] void run_tail(Index from, Index n) {
    if (from >= n) return;
    if constexpr (is_last)
      run_tail_vectors(position.g, position.row, position.scratch, position.numbers, Range{from, n - from});
    else
      for_each<rows>([&, x = run_tail_vectors(position.g, position.row, position.scratch, position.numbers,
                                              Range{from, n - from})](auto r) {
        V& part = part_[2 * sums * r];
        part = combine_partials(typename PassReduction<RowStep>::Kind{}, part, x.v[r]);
      });
  }
  // Stores the results of the pass after all elements have been read.
  [[gnu::always_inline]] void store_result(PassResults<Kernel::passes>* numbers) const {
    for_each<rows>([&](auto r) {
      numbers[r].of[pass] = typename PassReduction<RowStep>::Finalize{}(this->template reduced_row<r>(), position.g);
    });
  }
  template <int r> [[gnu::always_inline]] float reduced_row() const {
    using Kind = typename PassReduction<RowStep>::Kind;
    const V* const part = part_ + 2 * sums * r;
    V all = combine_partials(Kind{}, part[0], part[1]);
    for_each<sums - 1>([&](auto k) {
      all = combine_partials(Kind{}, all, combine_partials(Kind{}, part[2 * k + 2], part[2 * k + 3]));
    });
    return reduce_lanes(Kind{}, all);
  }
  template <class At> [[gnu::always_inline]] auto run_pass_at(const At& at) const {
    return [&]<int... p>(std::integer_sequence<int, p...>) __attribute__((always_inline)) {
      return Kernel::pass(at, g_, earlier_[p]...);
    }
    (std::make_integer_sequence<int, pass>{});
  }

  const KernelPosition position;

 private:
  static constexpr bool is_last = pass + 1 == Kernel::passes;
  // Number of pairs of vectors that accumulate a row: one for compute-heavy passes, which lack registers.
  static constexpr int sums = Kernel::is_compute_heavy && pass > 0 ? 1 : pairs, parts = is_last ? 1 : rows * 2 * sums;
  template <std::size_t... i>  // no loop, which g++ would turn into a memset of sums in memory
  [[gnu::always_inline]] RowStep(const KernelPosition& at, std::index_sequence<i...>)
      : position(at), g_(at.g), part_{(static_cast<void>(i), broadcast<V>(initial_value()))...} {
    for_each<pass>(
        [&](auto p) { for_each<rows>([&](auto r) { earlier_[p].v[r] = broadcast<V>(at.numbers[r].of[p]); }); });
  }
  static constexpr float initial_value() {
    if constexpr (is_last)
      return 0;
    else
      return identity_value<typename PassReduction<RowStep>::Kind>;
  }
  [[gnu::noinline]] static RowVectors<V, rows, 1> run_tail_vectors(const typename Kernel::Globals& g, Index row,
                                                                   RowScratch scratch,
                                                                   const PassResults<Kernel::passes>* numbers,
                                                                   Range tail_range) {
    RowStep step({g, row, scratch, numbers, false});
    for (Index i = tail_range.begin; i < tail_range.end(); i += V::lanes)
      step.run_partial(i, static_cast<int>(std::min<Index>(V::lanes, tail_range.end() - i)));
    RowVectors<V, rows, 1> out;
    for_each<rows>([&](auto r) { out.v[r] = step.part_[is_last ? 0 : 2 * sums * r]; });
    return out;
  }
  [[gnu::always_inline]] void run_partial(Index i, int count) {
    const PassOperations<RowStep, 1> at{*this, i, count, 0};
    if constexpr (is_last)
      run_pass_at(at);
    else
      for_each<rows>([&, x = run_pass_at(at)](auto r) {
        using Kind = typename decltype(x)::Kind;
        alignas(64) float padded[V::lanes], values[V::lanes];
        broadcast<V>(identity_value<Kind>).store(padded);
        x.of.v[r].store(values);
        std::memcpy(padded, values, static_cast<std::size_t>(count) * sizeof(float));
        V& part = part_[2 * sums * r];
        part = accumulate_lanes(Kind{}, part, V::load(padded));
      });
  }

  const typename Kernel::Globals g_;  // a copy, which stores cannot alias
  RowVectors<V, rows, 1> earlier_[pass == 0 ? 1 : pass];
  V part_[parts];
};

template <int pairs_per_iteration = 2> struct NoStep {
  static constexpr int pairs = pairs_per_iteration;
  static void run_pair(Index, int = 0) {}
  static void run_tail(Index, Index) {}
};

// Loops over elements 0 … n - 1 with three steps: `write` writes one row, `fetch` reads another row from memory and
// `work` reads a row in cache. Full pairs are written from element `prefix` on, where the output is line-aligned. So
// `write` is ahead of the readers, which may overwrite its input.
template <class V, class Write, class Fetch, class Work>
[[gnu::always_inline]] inline void loop_over_row(Index n, Index prefix, Write&& write, Fetch&& fetch, Work&& work) {
  constexpr int pairs = std::max(std::decay_t<Fetch>::pairs, std::decay_t<Work>::pairs);  // per loop iteration
  constexpr Index pair = 2 * V::lanes, iteration = pairs * pair;
  write.run_tail(0, prefix);
  Index i = 0;
  for (; prefix + i + iteration <= n; i += iteration) {
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) fetch.run_pair(i + k * pair, k);
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) write.run_pair(prefix + i + k * pair);
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) work.run_pair(i + k * pair, k);
  }
  Index at = prefix + i;
  for (; at + pair <= n; at += pair) write.run_pair(at);
  write.run_tail(at, n);
  for (; i + iteration <= n; i += iteration)
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) {
      fetch.run_pair(i + k * pair, k);
      work.run_pair(i + k * pair, k);
    }
  for (; i + pair <= n; i += pair) {
    fetch.run_pair(i, 0);
    work.run_pair(i, 0);
  }
  fetch.run_tail(i, n);
  work.run_tail(i, n);
}

}  // namespace
}  // namespace cpu
}  // namespace ridge::tile

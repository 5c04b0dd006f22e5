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
[[gnu::always_inline]] inline V power_of(V x) {
  if constexpr (sizeof(Y) == 2)
    return ops::raised_power_short(x);
  else
    return ops::raised_power(x);
}

}  // namespace

namespace cpu {
namespace {

using ops::abs, ops::larger, ops::lit, ops::load_some, ops::load_two, ops::max, ops::min, ops::store_some,
    ops::store_two, ops::sum, ops::Two;
using ops::LaterL2, ops::prefetch_line, ops::PrefetchFor, ops::SoonL1;
struct NoPrefetch {};
struct NextL1 {
  static constexpr int bytes = 1024, locality = 3;
};

// Calls f(0), f(1), … with the numbers as compile-time constants.
template <int n, class F> [[gnu::always_inline]] inline void for_each(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, n>{});
}

template <class V, class F> float folded(V a, const F& f) {
  alignas(64) float lanes[V::lanes];
  a.store(lanes);
  float all = lanes[0];
  for (const float each : lanes) all = f(all, each);
  return all;
}
template <class V> float largest(V a) {
  return folded(a, [](float most, float each) { return each > most ? each : most; });
}

// `Max` ignores a NaN, which reaches the result through the sum of powers.
template <class V> V join(Max, V a, V x) { return larger(x, a); }
template <class V> V join(Largest, V a, V x) { return max(a, x); }
template <class V> V join(Least, V a, V x) { return min(a, x); }
template <class V> V join(Add, V a, V x) { return a + x; }
template <class V> V join(Squares, V a, V x) { return fma(x, x, a); }
template <class V> V join_parts(Max, V a, V b) { return larger(b, a); }
template <class V> V join_parts(Largest, V a, V b) { return max(a, b); }
template <class V> V join_parts(Least, V a, V b) { return min(a, b); }
template <class V, class Kind> V join_parts(Kind, V a, V b) { return a + b; }
template <class V> float over_lanes(Max, V a) { return largest(a); }
template <class V> float over_lanes(Largest, V a) {
  return folded(a, [](float most, float each) { return joined(Largest{}, most, each); });
}
template <class V> float over_lanes(Least, V a) {
  return folded(a, [](float least, float each) { return joined(Least{}, least, each); });
}
template <class V, class Kind> float over_lanes(Kind, V a) { return sum(a); }
template <class Kind> constexpr float neutral = 0;
template <> constexpr float neutral<Max> = -__builtin_inff();
template <> constexpr float neutral<Largest> = neutral<Max>;
template <> constexpr float neutral<Least> = __builtin_inff();

// Vectors of one or more rows. With vectors == 1 a row's vector is used for all columns, with rows == 1 for all rows.
template <class V, int rows_, int vectors_> struct RowPart {
  static constexpr int rows = rows_, vectors = vectors_;
  V v[rows_ * vectors_];
  template <int r, int j> [[gnu::always_inline]] V of() const {
    return v[(rows == 1 ? 0 : r) * vectors + (vectors == 1 ? 0 : j)];
  }
};

// Results of the passes for one row.
template <int passes> struct RowNumbers { float of[std::max(passes - 1, 1)]; };
template <class Kernel> bool in_doubt(const RowNumbers<Kernel::passes>& numbers) {
  return [&]<int... i>(std::integer_sequence<int, i...>) {
    if constexpr (requires { Kernel::in_doubt(numbers.of[i]...); })
      return Kernel::in_doubt(numbers.of[i]...);
    else
      return false;
  }
  (std::make_integer_sequence<int, Kernel::passes - 1>{});
}

// Memory for the values that a pass keeps for later passes.
struct RowRoom {
  float* data;
  Index row_stride;
};

template <class V, class Stored> constexpr bool in_halves = false;
template <class V, class... T> constexpr bool in_halves<V, Formats<T...>> = V::has_halves &&
                                                                            (std::is_same_v<T, Bf16> && ...);

// The operations of a pass on `count` elements from i on of each row; k is the index in a loop iteration.
template <class Step, int vectors> struct RowAt {
  using V = typename Step::Vector;
  const Step& step;
  Index i;
  int count, k;

  template <class T, int which> [[gnu::always_inline]] auto load(const RowsView<T, which>& view) const {
    using Prefetch = typename Step::Ahead;
    constexpr int every = 64 / static_cast<int>(vectors * V::lanes * sizeof(T));
    if constexpr (vectors > 1 && !std::is_same_v<Prefetch, NoPrefetch>)
      if (every < 2 || k % every == 0)  // no lambda: g++ would remove it as having no effect
        for (int r = 0; r < Step::rows; ++r)
          prefetch_line<Prefetch, vectors * V::lanes>(view.data + (step.place.row + r) * view.row_stride + i);
    return read<Step::rows, Step::halves>(view.data + step.place.row * view.row_stride + i, view.row_stride);
  }
  template <class T> [[gnu::always_inline]] auto load(const ColumnsView<T>& view) const {
    return read<1, Step::halves>(view.data + i, 0);
  }
  template <class F, class... Others>
  [[gnu::always_inline]] void map(RowPart<V, Step::rows, vectors>& x, const F& f, const Others&... others) const {
    for_each<Step::rows>([&](auto r) {
      for_each<vectors>([&](auto j) { x.v[r * vectors + j] = f(x.v[r * vectors + j], others.template of<r, j>()...); });
    });
  }
  [[gnu::always_inline]] void keep(const RowPart<V, Step::rows, vectors>& x) const {
    for_each<Step::rows>(
        [&](auto r) { write<false>(x, r, step.place.room.data + r * step.place.room.row_stride + i, false); });
  }
  [[gnu::always_inline]] auto kept() const {
    return read<Step::rows, false>(step.place.room.data + i, step.place.room.row_stride);
  }
  template <class X, class Kind, class Leaves = AsJoined>
  [[gnu::always_inline]] Reduction<Kind, X, Leaves> reduce(const X& x, Kind, Leaves = {}) const {
    return {x};
  }
  template <class X, class Kind> [[gnu::always_inline]] Reduction<Kind, X, AsJoined> across(const X& x, Kind) const {
    return {x};
  }
  template <class T>
  [[gnu::always_inline]] void store(const RowsOut<T>& view, const RowPart<V, Step::rows, vectors>& x) const {
    for_each<Step::rows>([&](auto r) {
      write<Step::halves>(x, r, view.data + (step.place.row + r) * view.row_stride + i, step.place.stream);
    });
  }

 private:
  template <int rows, bool halves, class T> [[gnu::always_inline]] auto read(const T* from, Index stride) const {
    RowPart<V, rows, vectors> out;
    for_each<rows>([&](auto r) {
      if constexpr (vectors == 1) out.v[r] = load_some<V>(from + r * stride, count);
      for_each<vectors / 2>([&](auto pair) {
        const Two<V> two = load_two<V, halves>(from + r * stride + 2 * pair * V::lanes);
        out.v[vectors * r + 2 * pair] = two.a;
        out.v[vectors * r + 2 * pair + 1] = two.b;
      });
    });
    return out;
  }
  template <bool halves, int r, class T> [[gnu::always_inline]] void write(const RowPart<V, Step::rows, vectors>& x,
                                                                           std::integral_constant<int, r>, T* to,
                                                                           bool stream) const {
    if constexpr (vectors > 1)
      for_each<vectors / 2>([&](auto pair) {
        store_two<V, halves>({x.v[vectors * r + 2 * pair], x.v[vectors * r + 2 * pair + 1]}, to + 2 * pair * V::lanes,
                             stream);
      });
    else if constexpr (std::is_same_v<T, float>)
      x.v[r].store_some(to, count);
    else
      store_some(x.v[r], to, count);
  }
};

template <class Step> using LeftBy = decltype(std::declval<const Step&>().call(std::declval<const RowAt<Step, 2>&>()));

// The row of a pass (or the first of two) and its inputs.
template <class Kernel> struct RowPlace {
  const typename Kernel::Globals& g;
  Index row;
  RowRoom room;
  const RowNumbers<Kernel::passes>* numbers;
  bool stream;
};

// A pass of a kernel over `rows` rows, with enough vectors per row to hide the latency of the reduction.
template <class V, class Kernel, int pass, int rows_, int pairs_, class Prefetch> class RowStep {
 public:
  using Vector = V;
  using Ahead = Prefetch;
  using Place = RowPlace<Kernel>;
  static constexpr int rows = rows_, pairs = pairs_;
  static constexpr bool halves = in_halves<V, typename Kernel::Stored>;

  [[gnu::always_inline]] explicit RowStep(const Place& at) : RowStep(at, std::make_index_sequence<parts>()) {}

  [[gnu::always_inline]] void two(Index i, int k = 0) {
    const RowAt<RowStep, 2> at{*this, i, 2 * V::lanes, k};
    if constexpr (is_last)
      call(at);
    else
      for_each<rows>([&, x = call(at)](auto r) {
        V* const part = part_ + 2 * sums * r + 2 * (k % sums);
        part[0] = join(typename decltype(x)::Kind{}, part[0], x.of.v[2 * r]);
        part[1] = join(typename decltype(x)::Kind{}, part[1], x.of.v[2 * r + 1]);
      });
  }
  // Runs the last pass on two pairs, which are both read before either is written.
  [[gnu::always_inline]] void four(Index i) const { call(RowAt<RowStep, 4>{*this, i, 4 * V::lanes, 0}); }
  // Runs the pass one vector at a time on the elements after the last full pair, in a separate step object: the address
  // of this one must not be taken, so that it stays in registers.
  [[gnu::always_inline]] void rest(Index from, Index n) {
    if (from >= n) return;
    if constexpr (is_last)
      rest_of(place.g, place.row, place.room, place.numbers, Range{from, n - from});
    else
      for_each<rows>([&, x = rest_of(place.g, place.row, place.room, place.numbers, Range{from, n - from})](auto r) {
        V& part = part_[2 * sums * r];
        part = join_parts(typename LeftBy<RowStep>::Kind{}, part, x.v[r]);
      });
  }
  // Stores the result of the pass, which has read all of its rows.
  [[gnu::always_inline]] void leave(RowNumbers<Kernel::passes>* numbers) const {
    for_each<rows>([&](auto r) {
      numbers[r].of[pass] = typename LeftBy<RowStep>::Leaves{}(this->template joined_row<r>(), place.g);
    });
  }
  template <int r> [[gnu::always_inline]] float joined_row() const {
    using Kind = typename LeftBy<RowStep>::Kind;
    const V* const part = part_ + 2 * sums * r;
    V all = join_parts(Kind{}, part[0], part[1]);
    for_each<sums - 1>(
        [&](auto k) { all = join_parts(Kind{}, all, join_parts(Kind{}, part[2 * k + 2], part[2 * k + 3])); });
    return over_lanes(Kind{}, all);
  }
  template <class At> [[gnu::always_inline]] auto call(const At& at) const {
    return [&]<int... p>(std::integer_sequence<int, p...>) __attribute__((always_inline)) {
      return Kernel::pass(at, g_, left_[p]...);
    }
    (std::make_integer_sequence<int, pass>{});
  }

  const Place place;

 private:
  static constexpr bool is_last = pass + 1 == Kernel::passes;
  // Number of pairs of vectors that accumulate a row. Compute-heavy passes hide the latency anyway and lack registers.
  static constexpr int sums = Kernel::computes && pass > 0 ? 1 : pairs, parts = is_last ? 1 : rows * 2 * sums;
  template <std::size_t... i>  // no loop, which g++ would turn into a memset of sums in memory
  [[gnu::always_inline]] RowStep(const Place& at, std::index_sequence<i...>)
      : place(at), g_(at.g), part_{(static_cast<void>(i), lit<V>(start()))...} {
    for_each<pass>([&](auto p) { for_each<rows>([&](auto r) { left_[p].v[r] = lit<V>(at.numbers[r].of[p]); }); });
  }
  static constexpr float start() {
    if constexpr (is_last)
      return 0;
    else
      return neutral<typename LeftBy<RowStep>::Kind>;
  }
  [[gnu::noinline]] static RowPart<V, rows, 1> rest_of(const typename Kernel::Globals& g, Index row, RowRoom room,
                                                       const RowNumbers<Kernel::passes>* numbers, Range left) {
    RowStep step({g, row, room, numbers, false});
    for (Index i = left.begin; i < left.end(); i += V::lanes)
      step.some(i, static_cast<int>(std::min<Index>(V::lanes, left.end() - i)));
    RowPart<V, rows, 1> out;
    for_each<rows>([&](auto r) { out.v[r] = step.part_[is_last ? 0 : 2 * sums * r]; });
    return out;
  }
  [[gnu::always_inline]] void some(Index i, int count) {
    const RowAt<RowStep, 1> at{*this, i, count, 0};
    if constexpr (is_last)
      call(at);
    else
      for_each<rows>([&, x = call(at)](auto r) {
        using Kind = typename decltype(x)::Kind;
        alignas(64) float rest[V::lanes], values[V::lanes];
        lit<V>(neutral<Kind>).store(rest);
        x.of.v[r].store(values);
        std::memcpy(rest, values, static_cast<std::size_t>(count) * sizeof(float));
        V& part = part_[2 * sums * r];
        part = join(Kind{}, part, V::load(rest));
      });
  }

  const typename Kernel::Globals g_;  // a copy, which stores cannot alias
  RowPart<V, rows, 1> left_[pass == 0 ? 1 : pass];
  V part_[parts];
};

template <int of_a_turn = 2> struct Nothing {
  static constexpr int pairs = of_a_turn;
  static void two(Index, int = 0) {}
  static void rest(Index, Index) {}
};

// Loops over 0 … n-1: `write` writes one row, `fetch` reads one from memory and `work` one from a cache. Full pairs are
// written from `prefix` on, where the output is line-aligned. So the writer runs before the readers, which may
// overwrite their input.
template <class V, class Write, class Fetch, class Work>
[[gnu::always_inline]] inline void over_row(Index n, Index lead, Write&& write, Fetch&& fetch, Work&& work) {
  constexpr int pairs = std::max(std::decay_t<Fetch>::pairs, std::decay_t<Work>::pairs);  // per loop iteration
  constexpr Index pair = 2 * V::lanes, turn = pairs * pair;
  write.rest(0, lead);
  Index i = 0;
  for (; lead + i + turn <= n; i += turn) {
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) fetch.two(i + k * pair, k);
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) write.two(lead + i + k * pair);
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) work.two(i + k * pair, k);
  }
  Index at = lead + i;
  for (; at + pair <= n; at += pair) write.two(at);
  write.rest(at, n);
  for (; i + turn <= n; i += turn)
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k) {
      fetch.two(i + k * pair, k);
      work.two(i + k * pair, k);
    }
  for (; i + pair <= n; i += pair) {
    fetch.two(i, 0);
    work.two(i, 0);
  }
  fetch.rest(i, n);
  work.rest(i, n);
}

}  // namespace
}  // namespace cpu
}  // namespace ridge::tile

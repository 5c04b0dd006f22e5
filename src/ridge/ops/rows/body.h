// softmax and rmsnorm of one row after another. A row is read from memory once and found in the L1 or L2 again, and
// memory should never wait: one loop goes over the columns of two or three rows at once, writes the row that is done,
// works on the next and reads the one behind it for the first time. Its reads and writes come as those of a copy do, so
// the prefetcher that serves a copy serves it. (Skylake, one thread, rows of floats from memory, of a copy's speed:
// rmsnorm 0.79 with a pass for each step and prefetch instructions, 1.00 in one loop; softmax 0.72 and 0.91.) What
// computes much beside its loads still asks for lines ahead (Emerald Rapids: softmax of f32 0.62 -> 0.86, rmsnorm of
// bf16 0.6 -> 0.9).
//
// Where all rows lie in the L2 nothing is waited for but a row's own end: its sum crosses the lanes, is rooted and
// divided, some 70 cycles in which a loop that needs the factor stands still. So a few rows go through a step together,
// before the first goes through the next. Either way a row is summed in an order that depends on its length alone.
// Included by one file for each instruction set.
#pragma once

#include "ridge/ops/rows/part.h"
#include "ridge/ops/rows/steps.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

template <class V, class X, class W, class Y> class RowRunner {
 public:
  RowRunner(const RowRun& run, const X* x, const W* weight, Y* y) : run_(run), x_(x), weight_(weight), y_(y) {}

  void softmax() {
    if (run_.begin == run_.end) return;
    if constexpr (fetches_ahead)
      if (!run_.in_l2) return softmax_through();
    in_batches([&](std::int64_t from, int rows) { softmax_of(from, rows); });
  }
  void rmsnorm() {
    if (run_.begin == run_.end) return;
    rows_together(n_) > 1 ? rmsnorm<2>() : rmsnorm<4>();
  }

 private:
  // Without vector instructions arithmetic takes longer than memory, and the loop over two or three rows gains nothing.
  static constexpr bool fetches_ahead = V::has_halves;

  void softmax_through() {
    Top first = top_of(run_.begin);
    over_row<V>(n_, 0, Nothing<>{}, first, Nothing<>{});
    float most = largest(first.result()), sum = 0;
    for (std::int64_t r = run_.begin; r < run_.end; ++r) {
      FromMemory<Top> next = top_of<FromMemory<Top>>(std::min(r + 1, run_.end - 1));
      Powers powers{x_row(r), run_.scratch, lit<V>(most)};
      if (r == run_.begin)
        over_row<V>(n_, 0, Nothing<>{}, next, powers);
      else
        over_row<V>(n_, lead(r - 1), scaled(r - 1, sum), next, powers);
      sum = powers.total();
      most = largest(next.result());
    }
    over_row<V>(n_, lead(run_.end - 1), scaled(run_.end - 1, sum), Nothing<>{}, Nothing<>{});
  }

  // A row's sum of squares in so many pairs of vectors.
  template <int pairs> void rmsnorm() {
    if constexpr (fetches_ahead)
      if (!run_.in_l2) return rmsnorm_ahead<pairs>();
    in_batches([&](std::int64_t from, int rows) { rmsnorm_of<pairs>(from, rows); });
  }
  template <int pairs> void rmsnorm_ahead() {
    using Fetch = FromMemory<Squares<pairs>, PrefetchFor<X>>;
    if constexpr (two_long_rows<pairs>)
      if (n_ > l1_floats && run_.end - run_.begin > 1 && past_line(run_.begin) == past_line(run_.begin + 1))
        return rmsnorm_by_two<pairs, Fetch>();
    if (sizeof(X) == 2 || tile::cpu::prefetches_far())
      rmsnorm_through<pairs, Fetch>();
    else
      rmsnorm_through<pairs, Squares<pairs>>();
  }
  template <int pairs, class Fetch> void rmsnorm_through() {
    Squares<pairs> first = squares_of<pairs>(run_.begin);
    over_row<V>(n_, 0, Nothing<>{}, first, Nothing<>{});
    V squares = first.result();
    for (std::int64_t r = run_.begin; r < run_.end; ++r) {
      const Scale s = scale_of(r, sum(squares));
      Fetch next = squares_of<pairs, Fetch>(std::min(r + 1, run_.end - 1));
      if (s.unit != 1) {
        write_divided(r, s);
        over_row<V>(n_, 0, Nothing<>{}, next, Nothing<>{});
      } else {
        over_row<V>(n_, lead(r), weighted(r, s), next, Nothing<>{});
      }
      squares = next.result();
    }
  }
  // Of 16 bits, rows that do not stay in the L1 find their weights in the L2, and are widened and rounded beside: two
  // at once read and widen those once (Emerald Rapids, 16384 and 65536 columns of bf16: 0.87 -> 1.0 of a copy's speed,
  // a busy sibling 0.77 -> 0.87).
  template <int pairs> static constexpr bool two_long_rows = pairs == 4 && sizeof(X) == 2 && V::lanes == 16;
  template <int pairs, class Fetch> void rmsnorm_by_two() {
    const std::int64_t last = run_.end - 1;
    Squares<pairs> first = squares_of<pairs>(run_.begin), other = squares_of<pairs>(std::min(run_.begin + 1, last));
    over_row<V>(n_, 0, Nothing<>{}, first, other);
    V squares[2] = {first.result(), other.result()};
    for (std::int64_t r = run_.begin; r < last; r += 2) {
      const Scale s[2] = {scale_of(r, sum(squares[0])), scale_of(r + 1, sum(squares[1]))};
      Fetch next = squares_of<pairs, Fetch>(std::min(r + 2, last)),
            after = squares_of<pairs, Fetch>(std::min(r + 3, last));
      if (s[0].unit != 1 || s[1].unit != 1) {
        write_row(r, s[0]);
        write_row(r + 1, s[1]);
        over_row<V>(n_, 0, Nothing<>{}, next, after);
      } else {
        over_row<V>(n_, lead(r), weighted_two(r, s[0], s[1]), next, after);
      }
      squares[0] = next.result();
      squares[1] = after.result();
    }
    if ((run_.end - run_.begin) % 2 == 1) write_row(last, scale_of(last, sum(squares[0])));
  }

  static constexpr bool brain = std::is_same_v<X, Bf16> && std::is_same_v<Y, Bf16>;
  static constexpr bool halves = V::has_halves && brain && std::is_same_v<W, Bf16>;

  static constexpr int most_rows = 16;

  // Of rows that a quarter of the L1 holds.
  template <class Step> void in_batches(Step step) const {
    const std::int64_t rows = rows_together(n_);
    for (std::int64_t r = run_.begin; r < run_.end; r += rows) step(r, static_cast<int>(std::min(rows, run_.end - r)));
  }
  // Two rows at once, and the last alone.
  template <class Two, class One> static void in_pairs(int rows, Two two, One one) {
    int k = 0;
    for (; k + 1 < rows; k += 2) two(k);
    if (k < rows) one(k);
  }
  void softmax_of(std::int64_t from, int rows) const {
    V tops[most_rows], sums[most_rows];
    const auto set_top = [&](int k, const Top& row) { tops[k] = lit<V>(largest(row.result())); };
    const auto scaled = [&](int k) { return Scaled{room(from + k, k), y_row(from + k), false, sums[k]}; };
    in_pairs(
        rows,
        [&](int k) {
          Top one = top_of(from + k), other = top_of(from + k + 1);
          over_row<V>(n_, 0, Nothing<>{}, one, other);
          set_top(k, one);
          set_top(k + 1, other);
        },
        [&](int k) {
          Top one = top_of(from + k);
          over_row<V>(n_, 0, Nothing<>{}, one, Nothing<>{});
          set_top(k, one);
        });
    for (int k = 0; k < rows; ++k) {
      Powers powers{x_row(from + k), room(from + k, k), tops[k]};
      over_row<V>(n_, 0, Nothing<>{}, Nothing<>{}, powers);
      sums[k] = lit<V>(1) / lit<V>(powers.total());
    }
    for (int k = 0; k < rows; ++k) over_row<V>(n_, 0, scaled(k), Nothing<4>{}, Nothing<>{});
  }
  // Where a row's powers wait for their sum: y itself where it can hold them.
  float* room(std::int64_t r, int k) const {
    if constexpr (std::is_same_v<Y, float>)
      return y_row(r);
    else
      return run_.scratch + k * n_;
  }
  template <int pairs> void rmsnorm_of(std::int64_t from, int rows) const {
    Scale scales[most_rows];
    const auto set = [&](int k, const auto& row) { scales[k] = scale_of(from + k, sum(row.result())); };
    const auto sum_one = [&](int k) {
      Squares<pairs> one = squares_of<pairs>(from + k);
      over_row<V>(n_, 0, Nothing<>{}, one, Nothing<>{});
      set(k, one);
    };
    const auto write_one = [&](int k) { write_row(from + k, scales[k]); };
    if constexpr (pairs == 4) {
      for (int k = 0; k < rows; ++k) {
        sum_one(k);
        write_one(k);
      }
    } else {
      in_pairs(
          rows,
          [&](int k) {
            Squares<pairs> one = squares_of<pairs>(from + k), other = squares_of<pairs>(from + k + 1);
            over_row<V>(n_, 0, Nothing<>{}, one, other);
            set(k, one);
            set(k + 1, other);
          },
          sum_one);
      in_pairs(
          rows,
          [&](int k) {
            if (scales[k].unit != 1 || scales[k + 1].unit != 1) {
              write_one(k);
              return write_one(k + 1);
            }
            over_row<V>(n_, 0, weighted_two(from + k, scales[k], scales[k + 1]), Nothing<>{}, Nothing<>{});
          },
          write_one);
    }
  }

  const X* x_row(std::int64_t r) const { return x_ + r * run_.problem.x.row_stride; }
  Y* y_row(std::int64_t r) const { return y_ + r * run_.problem.y.row_stride; }
  std::uintptr_t past_line(std::int64_t r) const { return reinterpret_cast<std::uintptr_t>(y_row(r)) % 64; }
  // Elements before y's first whole line. In halves a pair cannot begin elsewhere than x's.
  std::int64_t lead(std::int64_t r) const {
    if (halves || !streams(r) || past_line(r) == 0) return 0;
    return std::min<std::int64_t>(n_, static_cast<std::int64_t>((64 - past_line(r)) / sizeof(Y)));
  }
  bool streams(std::int64_t r) const { return run_.stream && past_line(r) % (halves ? 64 : sizeof(Y)) == 0; }

  struct Scaled {  // y = powers * scale
    const float* powers;
    Y* y;
    bool stream;
    V scale;
    [[gnu::always_inline]] void two(std::int64_t i) const {
      const Two<V> e = load_two<V, false>(powers + i);
      store_two<V, halves>({e.a * scale, e.b * scale}, y + i, stream);
    }
    void some(std::int64_t i, int n) const { store_some(load_some<V>(powers + i, n) * scale, y + i, n); }
  };
  using Top = Reduction<V, X, halves, Largest>;
  template <int pairs> using Squares = Reduction<V, X, halves, SumOfSquares<pairs>>;
  template <class Kind = Top> Kind top_of(std::int64_t r) const { return Kind(x_row(r), lit<V>(-__builtin_inff())); }
  template <int pairs, class Kind = Squares<pairs>> Kind squares_of(std::int64_t r) const {
    return Kind(x_row(r), lit<V>(0));
  }

  // scratch = 2^64 e^(x - top); their sum. A NaN makes it NaN, and so do +inf and a row of -inf: 0/0.
  struct Powers {
    static constexpr int pairs = 2;
    const X* x;
    float* scratch;
    V top;
    V part[2] = {lit<V>(0), lit<V>(0)};

    float total() const { return sum(part[0] + part[1]); }
    static V power(V v) {
      if constexpr (sizeof(Y) == 2)
        return raised_power_short(v);
      else
        return raised_power(v);
    }
    [[gnu::always_inline]] void two(std::int64_t i, int) {
      const Two<V> v = load_two<V, halves>(x + i);
      const V a = power(v.a - top), b = power(v.b - top);
      a.store(scratch + i);
      b.store(scratch + i + V::lanes);
      part[0] = part[0] + a;
      part[1] = part[1] + b;
    }
    void some(std::int64_t i, int count) {
      power(load_some<V>(x + i, count) - top).store_some(scratch + i, count);
      part[0] = part[0] + V::load_some(scratch + i, count);
    }
  };

  Scaled scaled(std::int64_t r, float sum) const {
    return {run_.scratch, y_row(r), streams(r), lit<V>(1) / lit<V>(sum)};
  }
  template <class From, bool paired> struct Weighted {  // y = x * scale * weight
    const From* x;
    const W* weight;
    Y* y;
    bool stream;
    V scale;
    [[gnu::always_inline]] void two(std::int64_t i) const {
      const Two<V> v = load_two<V, paired>(x + i);
      const Two<V> w = load_two<V, paired>(weight + i);
      store_two<V, paired>({v.a * scale * w.a, v.b * scale * w.b}, y + i, stream);
    }
    void some(std::int64_t i, int n) const {
      store_some(load_some<V>(x + i, n) * scale * load_some<V>(weight + i, n), y + i, n);
    }
  };

  struct WeightedTwo {  // two rows, for which the weight is read once
    const X* x[2];
    const W* weight;
    Y* y[2];
    bool stream;
    V scale[2];
    [[gnu::always_inline]] void two(std::int64_t i) const {
      const Two<V> a = load_two<V, halves>(x[0] + i), b = load_two<V, halves>(x[1] + i);
      const Two<V> w = load_two<V, halves>(weight + i);
      store_two<V, halves>({a.a * scale[0] * w.a, a.b * scale[0] * w.b}, y[0] + i, stream);
      store_two<V, halves>({b.a * scale[1] * w.a, b.b * scale[1] * w.b}, y[1] + i, stream);
    }
    void some(std::int64_t i, int n) const {
      for (int k = 0; k < 2; ++k)
        store_some(load_some<V>(x[k] + i, n) * scale[k] * load_some<V>(weight + i, n), y[k] + i, n);
    }
  };

  struct Scale {
    float factor, unit;  // y = x / unit * factor
  };
  Weighted<X, halves> weighted(std::int64_t r, const Scale& s) const {
    return {x_row(r), weight_, y_row(r), streams(r), lit<V>(s.factor)};
  }
  WeightedTwo weighted_two(std::int64_t r, const Scale& first, const Scale& second) const {
    return {{x_row(r), x_row(r + 1)},
            weight_,
            {y_row(r), y_row(r + 1)},
            streams(r),
            {lit<V>(first.factor), lit<V>(second.factor)}};
  }
  void write_row(std::int64_t r, const Scale& s) const {
    if (s.unit != 1) return write_divided(r, s);
    over_row<V>(n_, lead(r), weighted(r, s), Nothing<4>{}, Nothing<>{});
  }
  // Squares of 1e20 overflow and those of 1e-25 vanish: then in units of the row's largest.
  Scale scale_of(std::int64_t r, float total) const {
    float unit = 1, epsilon = run_.problem.epsilon;
    if (!(total < __builtin_inff()) || (epsilon == 0 && total < 1e-30f)) {
      float most = 0;
      for (std::int64_t i = 0; i < n_; i += V::lanes) {
        const V v = load_some<V>(x_row(r) + i, static_cast<int>(std::min<std::int64_t>(V::lanes, n_ - i)));
        const float here = largest(max(abs(v), lit<V>(0)));
        most = here > most || here != here ? here : most;
      }
      if (most > 0 && most < __builtin_inff()) {
        unit = most;
        divide_by(r, unit);
        V part = lit<V>(0);
        for (std::int64_t i = 0; i < n_; i += V::lanes) {
          const V v = load_some<V>(run_.scratch + i, static_cast<int>(std::min<std::int64_t>(V::lanes, n_ - i)));
          part = part + v * v;
        }
        total = sum(part);
        epsilon = epsilon / unit / unit;
      }
    }
    return {1 / __builtin_sqrtf(total * part_ + epsilon), unit};
  }
  void write_divided(std::int64_t r, const Scale& s) const {
    divide_by(r, s.unit);
    const Weighted<float, false> write{run_.scratch, weight_, y_row(r), streams(r), lit<V>(s.factor)};
    over_row<V>(n_, lead(r), write, Nothing<>{}, Nothing<>{});
  }
  void divide_by(std::int64_t r, float unit) const {  // scratch = x / unit
    for (std::int64_t i = 0; i < n_; i += V::lanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(V::lanes, n_ - i));
      (load_some<V>(x_row(r) + i, count) / lit<V>(unit)).store_some(run_.scratch + i, count);
    }
  }

  const RowRun& run_;
  const X* x_;
  const W* weight_;
  Y* y_;
  std::int64_t n_ = run_.problem.columns;
  float part_ = 1 / static_cast<float>(n_);
};

// A row of weights as floats, or of ones in x's format: what the kernel multiplies with is one of the two.
template <class V, class X> const X* ones(std::int64_t n, float* room) {
  X one[V::lanes];
  lit<V>(1).store(one);
  X* const to = reinterpret_cast<X*>(room);
  for (std::int64_t i = 0; i < n; ++i) to[i] = one[0];
  return to;
}
template <class V> const float* widened(const RowRun& run, std::int64_t n, float* room) {
  with_type(run.problem.weight, const_cast<void*>(run.weight), [&](auto* from) { widen_run<V>(from, n, room); });
  return room;
}

template <class V, class X, class Y> void run_rmsnorm(const RowRun& run, const X* x, Y* y) {
  const DType dtype = run.problem.weight;
  const std::int64_t n = run.problem.columns;
  constexpr DType dtype_of_x = std::is_same_v<X, float>  ? DType::f32
                               : std::is_same_v<X, Bf16> ? DType::bf16
                                                         : DType::f16;
  if (run.weight == nullptr) {
    RowRunner<V, X, X, Y>(run, x, ones<V, X>(n, run.weights), y).rmsnorm();
  } else if (dtype == dtype_of_x) {
    RowRunner<V, X, X, Y>(run, x, static_cast<const X*>(run.weight), y).rmsnorm();
  } else {
    const auto* const w = dtype == DType::f32 ? static_cast<const float*>(run.weight) : widened<V>(run, n, run.weights);
    RowRunner<V, X, float, Y>(run, x, w, y).rmsnorm();
  }
}

template <class V> void run_rows(const RowRun& run) {
  with_type(run.problem.x.dtype, const_cast<void*>(run.x), [&](auto* x) {
    with_type(run.problem.y.dtype, run.y, [&](auto* y) {
      using X = std::decay_t<decltype(*x)>;
      using Y = std::decay_t<decltype(*y)>;
      if (run.problem.function == RowFunction::softmax)
        RowRunner<V, X, X, Y>(run, x, nullptr, y).softmax();
      else
        run_rmsnorm<V, X, Y>(run, x, y);
    });
  });
  if (run.stream) V::fence();
}

}  // namespace
}  // namespace ridge::ops

// softmax and rmsnorm of one row after another. A row is read from memory once and found in the L1 or L2 again, and
// memory should never wait: one loop goes over the columns of two or three rows at once, writes the row that is done,
// works on the next and reads the one behind it for the first time. Its reads and writes come as those of a copy do, so
// the prefetcher that serves a copy serves it. (Skylake, one thread, rows of floats from memory, of a copy's speed:
// rmsnorm 0.79 with a pass for each step and prefetch instructions, 1.00 in one loop; softmax 0.72 and 0.91.) Every row
// is summed in an order that depends on its length alone. Included by one file for each instruction set.
#pragma once

#include "ridge/kernels/rows.h"
#include "ridge/kernels/vector_math.h"
#include "ridge/kernels/vector_math_storage.h"

namespace ridge::kernels {
namespace {

template <class V> float largest(V a) {
  alignas(64) float lanes[V::lanes];
  a.store(lanes);
  float most = lanes[0];
  for (const float each : lanes) most = each > most ? each : most;
  return most;
}

// What is joined of a row: two vectors hide the latency of joining, what is no whole pair comes one vector at a time.
template <class V, class X, bool halves, class Kind> struct Reduction {
  const X* row;
  V start;
  V part[4] = {start, start, start, start};

  [[gnu::always_inline]] void two(std::int64_t i, int k) {  // k: 0 or 2
    const Two<V> x = load_two<V, halves>(row + i);
    part[k] = Kind::join(part[k], Kind::of(x.a)), part[k + 1] = Kind::join(part[k + 1], Kind::of(x.b));
  }
  void some(std::int64_t i, int count) {
    alignas(64) float rest[V::lanes], values[V::lanes];
    start.store(rest);
    Kind::of(load_some<V>(row + i, count)).store(values);
    std::memcpy(rest, values, static_cast<std::size_t>(count) * sizeof(float));
    part[0] = Kind::join(part[0], V::load(rest));
  }
  V result() const { return Kind::join(Kind::join(part[0], part[1]), Kind::join(part[2], part[3])); }
};
struct SumOfSquares {
  template <class V> static V of(V v) { return v * v; }
  template <class V> static V join(V a, V b) { return a + b; }
};
struct Largest {  // of a NaN and another, the other: it shows in the sum of powers
  template <class V> static V of(V v) { return v; }
  template <class V> static V join(V a, V b) { return larger(b, a); }
};

struct Nothing {
  static void two(std::int64_t, int = 0) {}
  static void some(std::int64_t, int) {}
};
template <class Fetch, class Work>
struct Reader {  // `fetch` of a row that comes from memory, `work` on one from a cache
  Fetch fetch;
  Work work;
  [[gnu::always_inline]] void two(std::int64_t i, int k) { fetch.two(i, k), work.two(i, k); }
  void some(std::int64_t i, int count) { fetch.some(i, count), work.some(i, count); }
};

template <class V, class Step> void rest(Step& step, std::int64_t from, std::int64_t n) {
  for (; from < n; from += V::lanes) step.some(from, static_cast<int>(std::min<std::int64_t>(V::lanes, n - from)));
}

// Over 0 … n-1: `write` writes one row, `read` works on others; returned as it is then. Whole pairs are written from
// `lead` on, where the output meets a line, so the writer is ahead of the reader, who may overwrite what it read.
template <class V, class Write, class Read>
[[gnu::always_inline]] inline Read over_row(std::int64_t n, std::int64_t lead, const Write& write, const Read& start) {
  constexpr std::int64_t pair = 2 * V::lanes;
  const Write edge = write, body = write;  // copies, whose addresses nobody has, stay in registers
  Read read = start;
  rest<V>(edge, 0, lead);
  std::int64_t i = 0;
  for (; lead + i + 2 * pair <= n; i += 2 * pair) {
    read.fetch.two(i, 0), read.fetch.two(i + pair, 2);
    body.two(lead + i), body.two(lead + i + pair);
    read.work.two(i, 0), read.work.two(i + pair, 2);
  }
  for (std::int64_t at = lead + i; at < n; at += pair) {
    if (at + pair <= n)
      edge.two(at);
    else
      rest<V>(edge, at, n);
  }
  for (; i + 2 * pair <= n; i += 2 * pair) read.two(i, 0), read.two(i + pair, 2);
  for (; i + pair <= n; i += pair) read.two(i, 0);
  Read last = read;
  rest<V>(last, i, n);
  return last;
}

template <class V, class X, class W, class Y> class RowRunner {
 public:
  RowRunner(const RowRun& run, const X* x, const W* weight, Y* y) : run_(run), x_(x), weight_(weight), y_(y) {}

  void softmax() {
    if (run_.begin == run_.end) return;
    float most = largest(over_row<V>(n_, 0, Nothing{}, Reader<Top, Nothing>{top_of(run_.begin), {}}).fetch.result());
    float sum = 0;
    for (std::int64_t r = run_.begin; r < run_.end; ++r) {
      const Reader<Top, Powers> start{top_of(std::min(r + 1, run_.end - 1)), {x_row(r), run_.scratch, lit<V>(most)}};
      const auto done = r == run_.begin ? over_row<V>(n_, 0, Nothing{}, start)
                                        : over_row<V>(n_, lead(r - 1), scaled(r - 1, sum), start);
      sum = kernels::sum(done.work.part[0] + done.work.part[1]), most = largest(done.fetch.result());
    }
    over_row<V>(n_, lead(run_.end - 1), scaled(run_.end - 1, sum), Reader<Nothing, Nothing>{});
  }

  void rmsnorm() {
    if (run_.begin == run_.end) return;
    V squares = over_row<V>(n_, 0, Nothing{}, squares_of(run_.begin)).fetch.result();
    for (std::int64_t r = run_.begin; r < run_.end; ++r) {
      const Scale s = scale_of(r, kernels::sum(squares));
      const Squares next = squares_of(std::min(r + 1, run_.end - 1));
      if (s.unit != 1) {
        const Weighted<float, false> write{run_.scratch, weight_, y_row(r), streams(r), lit<V>(s.factor)};
        over_row<V>(n_, lead(r), write, Reader<Nothing, Nothing>{});
        squares = over_row<V>(n_, 0, Nothing{}, next).fetch.result();
      } else {
        const Weighted<X, halves> write{x_row(r), weight_, y_row(r), streams(r), lit<V>(s.factor)};
        squares = over_row<V>(n_, lead(r), write, next).fetch.result();
      }
    }
  }

 private:
  static constexpr bool brain = std::is_same_v<X, Bf16> && std::is_same_v<Y, Bf16>;
  static constexpr bool halves = V::has_halves && brain && std::is_same_v<W, Bf16>;

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
  using Squares = Reader<Reduction<V, X, halves, SumOfSquares>, Nothing>;
  Top top_of(std::int64_t r) const { return {x_row(r), lit<V>(-__builtin_inff())}; }
  Squares squares_of(std::int64_t r) const { return {{x_row(r), lit<V>(0)}, {}}; }

  // scratch = e^(x - top); their sum. A NaN makes it NaN, and so do +inf and a row of -inf: 0/0.
  struct Powers {
    const X* x;
    float* scratch;
    V top;
    V part[2] = {lit<V>(0), lit<V>(0)};

    static V power(V v) {
      if constexpr (sizeof(Y) == 2)
        return exp_below_0_short(v);
      else
        return exp_below_0(v);
    }
    [[gnu::always_inline]] void two(std::int64_t i, int) {
      const Two<V> v = load_two<V, halves>(x + i);
      const V a = power(v.a - top), b = power(v.b - top);
      a.store(scratch + i), b.store(scratch + i + V::lanes);
      part[0] = part[0] + a, part[1] = part[1] + b;
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
      Two<V> out{v.a * scale, v.b * scale};
      if (weight != nullptr) {
        const Two<V> w = load_two<V, paired>(weight + i);
        out = {out.a * w.a, out.b * w.b};
      }
      store_two<V, paired>(out, y + i, stream);
    }
    void some(std::int64_t i, int n) const {
      const V v = load_some<V>(x + i, n) * scale;
      store_some(weight == nullptr ? v : v * load_some<V>(weight + i, n), y + i, n);
    }
  };

  struct Scale {
    float factor, unit;  // y = x / unit * factor
  };
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
        total = kernels::sum(part);
        epsilon = epsilon / unit / unit;
      }
    }
    alignas(64) float root[V::lanes];
    (lit<V>(1) / sqrt(lit<V>(total / static_cast<float>(n_) + epsilon))).store(root);
    return {root[0], unit};
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
};

template <class V> void run_rows(const RowRun& run) {
  const RowProblem& p = run.problem;
  with_type(p.x.dtype, const_cast<void*>(run.x), [&](auto* x) {
    with_type(p.y.dtype, run.y, [&](auto* y) {
      if (p.function == RowFunction::softmax)
        return RowRunner<V, std::decay_t<decltype(*x)>, std::decay_t<decltype(*x)>, std::decay_t<decltype(*y)>>(
                   run, x, nullptr, y)
            .softmax();
      with_type(p.weight, const_cast<void*>(run.weight), [&](auto* w) {
        RowRunner<V, std::decay_t<decltype(*x)>, std::decay_t<decltype(*w)>, std::decay_t<decltype(*y)>>(run, x, w, y)
            .rmsnorm();
      });
    });
  });
  if (run.stream) V::fence();
}

}  // namespace
}  // namespace ridge::kernels

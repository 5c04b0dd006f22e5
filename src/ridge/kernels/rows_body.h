// softmax and rmsnorm of one row after another. A row is read from memory once and found in the L1 or L2 again, and
// memory should never wait: every pass over a row fetches its share of the next one, the pass that writes the least,
// since it keeps memory busy itself. (Zen 4, one thread: rows of 1024 floats from memory at 0.76 of a copy's speed
// where the writing loop also read the next row, above it with the fetch spread over both passes.) Every row is summed
// in an order that depends on its length alone. Included by one file for each instruction set.
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

// A pass's share of the next row, in quarters: fetched bit by bit while the pass goes over its own row.
template <class V, class X, int quarters> struct Ahead {
  const char* share;  // null: there is no next row, or it lies in a cache
  [[gnu::always_inline]] void at(std::int64_t i) const {
    constexpr std::int64_t step = 4 * V::lanes * static_cast<std::int64_t>(sizeof(X)) * quarters / 4;
    if (share == nullptr) return;
    for (std::int64_t byte = 0; byte < step; byte += 64) V::prefetch(share + i / (4 * V::lanes) * step + byte);
  }
};

template <class V, class Step> void rest(Step& step, std::int64_t from, std::int64_t n) {
  for (; from < n; from += V::lanes) step.some(from, static_cast<int>(std::min<std::int64_t>(V::lanes, n - from)));
}

// A reduction over 0 … n-1.
template <class V, class R, class A> [[gnu::always_inline]] inline V reduce(R reduction, A ahead, std::int64_t n) {
  constexpr std::int64_t pair = 2 * V::lanes;
  std::int64_t i = 0;
  R r = reduction;  // a copy, whose address nobody has, stays in registers
  for (; i + 2 * pair <= n; i += 2 * pair) {
    ahead.at(i);
    r.two(i, 0), r.two(i + pair, 2);
  }
  for (; i + pair <= n; i += pair) r.two(i, 0);
  R last = r;
  rest<V>(last, i, n);
  return last.result();
}

// What is written, over 0 … n-1; whole pairs begin at `lead`, where the output meets a line.
template <class V, class Write, class A>
[[gnu::always_inline]] inline void write_row(Write write, std::int64_t lead, A ahead, std::int64_t n) {
  constexpr std::int64_t pair = 2 * V::lanes;
  Write edge = write;
  rest<V>(edge, 0, lead);
  std::int64_t i = lead;
  for (; i + 2 * pair <= n; i += 2 * pair) {
    ahead.at(i);
    write.two(i), write.two(i + pair);
  }
  for (; i + pair <= n; i += pair) write.two(i);
  rest<V>(edge, i, n);
}

template <class V, class X, class W, class Y> class RowRunner {
 public:
  RowRunner(const RowRun& run, const X* x, const W* weight, Y* y) : run_(run), x_(x), weight_(weight), y_(y) {}

  void softmax() {
    const Ahead<V, X, 0> none{nullptr};
    for (std::int64_t r = run_.begin; r < run_.end; ++r) {
      const Reduction<V, X, halves, Largest> top{x_row(r), lit<V>(-__builtin_inff())};
      const float sum = powers(r, largest(reduce<V>(top, none, n_)));
      const Scaled write{run_.scratch, y_row(r), streams(r), lit<V>(1) / lit<V>(sum)};
      write_row<V>(write, lead(r), none, n_);
    }
  }

  void rmsnorm() {
    for (std::int64_t r = run_.begin; r < run_.end; ++r) {
      const Reduction<V, X, halves, SumOfSquares> squares{x_row(r), lit<V>(0)};
      const Scale s = scale_of(r, kernels::sum(reduce<V>(squares, ahead<0, 2>(r), n_)));
      if (s.unit != 1) {
        const Weighted<float, false> write{run_.scratch, weight_, y_row(r), streams(r), lit<V>(s.factor)};
        write_row<V>(write, lead(r), ahead<2, 2>(r), n_);
      } else {
        const Weighted<X, halves> write{x_row(r), weight_, y_row(r), streams(r), lit<V>(s.factor)};
        write_row<V>(write, lead(r), ahead<2, 2>(r), n_);
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

  template <int from, int quarters> Ahead<V, X, quarters> ahead(std::int64_t r) const {
    if (!run_.stream || r + 1 >= run_.end) return {nullptr};
    return {reinterpret_cast<const char*>(x_row(r + 1) + n_ * from / 4)};
  }

  // scratch = e^(x - top); their sum. A NaN makes it NaN, and so do +inf and a row of -inf: 0/0.
  float powers(std::int64_t r, float most) const {
    constexpr std::int64_t pair = 2 * V::lanes;
    const X* x = x_row(r);
    const V top = lit<V>(most);
    V part[2] = {lit<V>(0), lit<V>(0)};
    const auto two = [&](std::int64_t i) __attribute__((always_inline)) {
      const Two<V> v = load_two<V, halves>(x + i);
      const V a = exp_below_0(v.a - top), b = exp_below_0(v.b - top);
      a.store(run_.scratch + i), b.store(run_.scratch + i + V::lanes);
      part[0] = part[0] + a, part[1] = part[1] + b;
    };
    std::int64_t i = 0;
    const X* next = run_.stream && r + 1 < run_.end ? x_row(r + 1) : nullptr;
    for (; i + pair <= n_; i += pair) {
      for (std::int64_t k = 0; next != nullptr && k < pair; k += static_cast<std::int64_t>(64 / sizeof(X)))
        V::prefetch(next + i + k);
      two(i);
    }
    for (; i < n_; i += V::lanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(V::lanes, n_ - i));
      exp_below_0(load_some<V>(x + i, count) - top).store_some(run_.scratch + i, count);
      part[0] = part[0] + V::load_some(run_.scratch + i, count);
    }
    return kernels::sum(part[0] + part[1]);
  }

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

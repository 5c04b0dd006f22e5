// softmax and rmsnorm of one row after another. A row of 4096 floats is 16 KiB and stays in the L1 between its passes,
// so memory sees one read and one write; the pass that computes most fetches the next row meanwhile (softmax of rows of
// 4096 floats in memory: 28 GB/s without, 37 with). Included by one file for each instruction set.
#pragma once

#include "ridge/kernels/rows.h"
#include "ridge/kernels/vector_math.h"
#include "ridge/kernels/vector_math_storage.h"

namespace ridge::kernels {
namespace {

// Four partial results hide the latency of joining; what is no whole vector is joined lane by lane in a fifth.
template <class V, class T, class F, class Join>
[[gnu::always_inline]] inline V reduce(const T* row, std::int64_t n, V start, F f, Join join) {
  V part[4] = {start, start, start, start};
  std::int64_t i = 0;
  for (; i + 4 * V::lanes <= n; i += 4 * V::lanes)
    for (int k = 0; k < 4; ++k) part[k] = join(part[k], f(V::load(row + i + k * V::lanes)));
  for (; i + V::lanes <= n; i += V::lanes) part[0] = join(part[0], f(V::load(row + i)));
  if (i < n) {
    alignas(64) float rest[V::lanes], values[V::lanes];
    start.store(rest);
    f(load_some<V>(row + i, static_cast<int>(n - i))).store(values);
    std::memcpy(rest, values, static_cast<std::size_t>(n - i) * sizeof(float));
    part[1] = join(part[1], V::load(rest));
  }
  return join(join(part[0], part[1]), join(part[2], part[3]));
}

template <class V> float largest(V a) {
  alignas(64) float lanes[V::lanes];
  a.store(lanes);
  float most = lanes[0];
  for (const float each : lanes) most = each > most ? each : most;
  return most;
}

template <class V, class T, class F> [[gnu::always_inline]] inline float sum_of(const T* row, std::int64_t n, F f) {
  return sum(reduce(row, n, lit<V>(0), f, [](V a, V b) { return a + b; }));
}

template <class V, class T> void fetch(const T* next, std::int64_t i) {
  if (next != nullptr) V::prefetch(next + i);
}

// A NaN is not the largest but makes the sum NaN, and so the row. So do +inf, and a row of -inf: 0/0.
template <class V, class X, class Y> void softmax_row(const RowRun& run, const X* x, const X* next, Y* y) {
  const std::int64_t n = run.problem.columns;
  const V least = lit<V>(-__builtin_inff());
  const V top = lit<V>(largest(reduce(
      x, n, least, [](V v) { return v; }, [](V a, V b) { return larger(b, a); })));
  float* powers = run.scratch;
  V part[2] = {lit<V>(0), lit<V>(0)};
  std::int64_t i = 0;
  for (; i + 2 * V::lanes <= n; i += 2 * V::lanes)
    for (int k = 0; k < 2; ++k) {
      const std::int64_t at = i + k * V::lanes;
      fetch<V>(next, at);
      const V e = exp(V::load(x + at) - top);
      e.store(powers + at);
      part[k] = part[k] + e;
    }
  for (; i < n; i += V::lanes) {
    const int count = static_cast<int>(std::min<std::int64_t>(V::lanes, n - i));
    exp(load_some<V>(x + i, count) - top).store_some(powers + i, count);
    part[0] = part[0] + V::load_some(powers + i, count);
  }
  const V scale = lit<V>(1) / lit<V>(sum(part[0] + part[1]));
  write_run<V>(y, n, run.stream, [&](std::int64_t at, int lanes) { return load_some<V>(powers + at, lanes) * scale; });
}

template <class V, class X, class W, class Y>
void rmsnorm_row(const RowRun& run, const X* x, const X* next, const W* weight, Y* y) {
  const std::int64_t n = run.problem.columns;
  const auto count = static_cast<float>(n);
  float squares = sum_of<V>(x, n, [](V v) { return v * v; }), unit = 1, epsilon = run.problem.epsilon;
  // Squares of 1e20 overflow and those of 1e-25 vanish: then in units of the row's largest.
  if (!(squares < __builtin_inff()) || (epsilon == 0 && squares < 1e-30f)) {
    const float most = largest(reduce(
        x, n, lit<V>(0), [](V v) { return abs(v); }, [](V a, V b) { return max(a, b); }));
    if (most > 0 && most < __builtin_inff()) {
      unit = most;
      const V units = lit<V>(unit);
      squares = sum_of<V>(x, n, [units](V v) { return (v / units) * (v / units); });
      epsilon = epsilon / unit / unit;
    }
  }
  const V root = sqrt(lit<V>(squares / count + epsilon)), scale = lit<V>(1) / root, units = lit<V>(unit);
  const auto value = [&](std::int64_t at, int lanes) {
    fetch<V>(next, at);
    V v = load_some<V>(x + at, lanes);
    if (unit != 1) v = v / units;
    v = v * scale;
    return weight == nullptr ? v : v * load_some<V>(weight + at, lanes);
  };
  write_run<V>(y, n, run.stream, value);
}

template <class V, class X, class Y> void each_row(const RowRun& run, X* x, Y* y) {
  const RowProblem& p = run.problem;
  for (std::int64_t r = run.begin; r < run.end; ++r) {
    const X* row = x + r * p.x.row_stride;
    const X* next = run.stream && r + 1 < run.end ? row + p.x.row_stride : nullptr;
    Y* out = y + r * p.y.row_stride;
    if (p.function == RowFunction::softmax)
      softmax_row<V>(run, row, next, out);
    else
      with_type(p.weight, const_cast<void*>(run.weight), [&](auto* w) { rmsnorm_row<V>(run, row, next, w, out); });
  }
}

template <class V> void run_rows(const RowRun& run) {
  with_type(run.problem.x.dtype, const_cast<void*>(run.x),
            [&](auto* x) { with_type(run.problem.y.dtype, run.y, [&](auto* y) { each_row<V>(run, x, y); }); });
  if (run.stream) V::fence();
}

}  // namespace
}  // namespace ridge::kernels

// Softmax down columns, several vectors of adjacent columns at a time: a pass for the maxima, one for the exponentials
// and their sums, and one that divides. A block of columns is in the L1 or L2 after the first pass, so x is read from
// memory once and nothing is transposed. Included by one file for each instruction set.
#pragma once

#include "ridge/ops/rows/isa_kernels.h"
#include "ridge/tile/cpu/row_steps.h"

namespace ridge::ops {
namespace {

// Columns from `first` of one matrix: `vectors` full vectors, or one vector with `count` lanes.
template <class V, class T, int vectors> class ColumnBlock {
 public:
  ColumnBlock(const ColumnSoftmaxRun& run, std::int64_t first, int count)
      : x_(static_cast<const T*>(run.x) + first),
        y_(static_cast<T*>(run.y) + first),
        extent_(run.extent),
        stride_(run.columns),
        count_(count) {}

  void normalize() const {
    V top[vectors], scale[vectors];
    for_vectors([&](auto j) { top[j] = broadcast<V>(-__builtin_inff()); });
    for (std::int64_t row = 0; row < extent_; ++row)
      for_vectors([&](auto j) { top[j] = lane_max(load(x_, row, j), top[j]); });
    sum_exponentials(top, scale);
    for_vectors([&](auto j) { scale[j] = broadcast<V>(1) / scale[j]; });
    for (std::int64_t row = 0; row < extent_; ++row)
      for_vectors([&](auto j) { store(power_at(row, j, top[j]) * scale[j], row, j); });
  }

 private:
  // Exponentials of f32 are stored in y until they are divided. 16 bits would lose accuracy, and their exponential is
  // short enough to be computed twice.
  static constexpr bool keeps_exponentials = sizeof(T) == 4;
  static constexpr std::int64_t rows_per_sum = 256;  // Partial sums of this length bound the rounding error

  template <class F> [[gnu::always_inline]] static void for_vectors(F&& f) { tile::cpu::for_each<vectors>(f); }
  template <class From> [[gnu::always_inline]] V load(From* from, std::int64_t row, int j) const {
    from += row * stride_ + j * V::lanes;
    if constexpr (vectors > 1) return V::load(from);
    return load_partial<V>(from, count_);
  }
  [[gnu::always_inline]] void store(V value, std::int64_t row, int j) const {
    T* const to = y_ + row * stride_ + j * V::lanes;
    if (vectors > 1 || count_ == V::lanes)
      value.store(to);
    else
      store_partial(value, to, count_);
  }
  [[gnu::always_inline]] V power_at(std::int64_t row, int j, V top) const {
    if constexpr (keeps_exponentials) return load(y_, row, j);
    return tile::scaled_exp<T>(load(x_, row, j) - top);
  }
  void sum_exponentials(const V* top, V* sum) const {
    for_vectors([&](auto j) { sum[j] = broadcast<V>(0); });
    for (std::int64_t begin = 0; begin < extent_; begin += rows_per_sum) {
      V part[vectors];
      for_vectors([&](auto j) { part[j] = broadcast<V>(0); });
      for (std::int64_t row = begin; row < std::min(begin + rows_per_sum, extent_); ++row)
        for_vectors([&](auto j) {
          const V power = tile::scaled_exp<T>(load(x_, row, j) - top[j]);
          part[j] = part[j] + power;
          if constexpr (keeps_exponentials) store(power, row, j);
        });
      for_vectors([&](auto j) { sum[j] = sum[j] + part[j]; });
    }
  }

  const T* x_;
  T* y_;
  std::int64_t extent_, stride_;
  int count_;
};

template <class V> void run_column_softmax(const ColumnSoftmaxRun& run) {
  constexpr int vectors = 64 / V::lanes;
  with_typed_pointer(run.dtype, run.y, [&](auto* y) {
    using T = std::decay_t<decltype(*y)>;
    std::int64_t at = run.first;
    for (; at + vectors * V::lanes <= run.last; at += vectors * V::lanes)
      ColumnBlock<V, T, vectors>(run, at, V::lanes).normalize();
    for (; at < run.last; at += V::lanes) {
      const auto left = static_cast<int>(std::min<std::int64_t>(V::lanes, run.last - at));
      ColumnBlock<V, T, 1>(run, at, left).normalize();
    }
  });
}

}  // namespace
}  // namespace ridge::ops

// Applies the epilogue to a tile of sums and stores it, one vector at a time; compiled once per instruction set. For
// k = 4096 an element takes 4096 multiply-adds and about ten instructions here.
#pragma once

#include <cstring>

#include "ridge/ops/function/vector_math.h"
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/tile/tile.h"

namespace ridge::ops {
namespace {

template <class V> struct LaneMath {
  static V all(float x) { return V::all(x); }
  static V activated(Activation activation, V x) {
    switch (activation) {
      case Activation::none: return x;
      case Activation::relu: return relu(x);
      case Activation::gelu: return gelu(x);
      case Activation::gelu_tanh: return gelu_tanh(x);
      case Activation::silu: return silu(x);
    }
    return x;
  }
};

// Loads n elements from[0], from[stride], …
template <class V, class T> V load_strided(const T* from, std::int64_t stride, int n) {
  if (stride == 1) return load_some<V>(from, n);
  T part[V::lanes] = {};
  for (int i = 0; i < n; ++i) std::memcpy(&part[i], from + i * stride, sizeof(T));
  if (stride == 0)
    for (int i = 1; i < V::lanes; ++i) part[i] = part[0];
  return V::load(part);
}

template <class V> V read_operand(const tile::Operand& p, std::int64_t at, int n) {
  switch (p.stored) {
    case tile::Stored::bf16: return load_strided<V>(static_cast<const Bf16*>(p.data) + at, p.col_stride, n);
    case tile::Stored::f16: return load_strided<V>(static_cast<const F16*>(p.data) + at, p.col_stride, n);
    default: return load_strided<V>(static_cast<const float*>(p.data) + at, p.col_stride, n);
  }
}

template <class V> V read_sums(const tile::Finishing& x, std::int64_t at, int n) {
  if (!x.are_integers) return load_some<V>(static_cast<const float*>(x.sums) + at, n);
  std::int32_t part[V::lanes] = {};
  std::memcpy(part, static_cast<const std::int32_t*>(x.sums) + at, static_cast<std::size_t>(n) * sizeof part[0]);
  return to_float(V::Int::load(part));
}

template <class V, class T> void write_some(V y, void* out, std::int64_t at, int n, std::int64_t stride) {
  T* const to = static_cast<T*>(out) + at;
  if (n == V::lanes && stride == 1) return y.store(to);
  store_some(y, to, n, stride);
}

// Stores n elements, clamped to the range of int8 and rounded to even. NaN becomes 0.
template <class V> void write_int8(V y, void* out, std::int64_t at, int n, std::int64_t stride) {
  const V held = smaller(V::all(127), larger(V::all(-128), select(is_nan(y), V::all(0), y)));
  float part[V::lanes];
  round_even(held).store(part);
  std::int8_t* const to = static_cast<std::int8_t*>(out) + at;
  for (int i = 0; i < n; ++i) to[i * stride] = static_cast<std::int8_t>(part[i]);
}

template <class V> void finish_tile(const tile::Finishing& x) {
  const tile::Finish& f = x.finish;
  for (std::int64_t i = 0; i < x.row.size; ++i)
    for (std::int64_t j = 0; j < x.col.size; j += V::lanes) {
      const int n = static_cast<int>(std::min<std::int64_t>(V::lanes, x.col.size - j));
      const std::int64_t row = x.row.begin + i, col = x.col.begin + j;
      const V y = tile::finished<LaneMath<V>>(f, read_sums<V>(x, i * x.sums_stride + j, n), [&](const auto& p) {
        return read_operand<V>(p, x.batch * p.batch_stride + row * p.row_stride + col * p.col_stride, n);
      });
      const std::int64_t at = x.batch * x.batch_stride + row * x.row_stride + col * x.col_stride;
      switch (f.stored) {
        case tile::Stored::bf16: write_some<V, Bf16>(y, x.out, at, n, x.col_stride); break;
        case tile::Stored::f16: write_some<V, F16>(y, x.out, at, n, x.col_stride); break;
        case tile::Stored::f32: write_some<V, float>(y, x.out, at, n, x.col_stride); break;
        case tile::Stored::int8: write_int8<V>(y, x.out, at, n, x.col_stride); break;
      }
    }
}

}  // namespace
}  // namespace ridge::ops

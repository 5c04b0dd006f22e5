// Applies the epilogue to a tile of sums and stores the results, one vector at a time. Compiled once per instruction
// set. The epilogue takes about ten instructions per element, compared with k multiply-adds.
#include <cstring>

#include "ridge/base/check.h"
#include "ridge/ops/function/vector_math.h"
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/tile/tile.h"

namespace ridge::ops {
namespace {

template <class V> struct LaneMath {
  static V all(float x) { return V::broadcast(x); }
  static V apply_activation(EpilogueActivation activation, V x) {
    switch (activation) {
      case EpilogueActivation::none: return x;
      case EpilogueActivation::relu: return relu(x);
      case EpilogueActivation::gelu: return gelu(x);
      case EpilogueActivation::gelu_tanh: return gelu_tanh(x);
      case EpilogueActivation::silu: return silu(x);
    }
    return x;
  }
};

// Loads n elements from[0], from[stride], …
template <class V, class T> V load_strided(const T* from, std::int64_t stride, int n) {
  if (stride == 1) return load_partial<V>(from, n);
  T values[V::lanes] = {};
  for (int i = 0; i < n; ++i) std::memcpy(&values[i], from + i * stride, sizeof(T));
  if (stride == 0)
    for (int i = 1; i < V::lanes; ++i) values[i] = values[0];
  return V::load(values);
}

template <class V> V load_operand(const tile::EpilogueInput& p, std::int64_t at, int n) {
  switch (p.format) {
    case tile::StorageFormat::bf16: return load_strided<V>(static_cast<const Bf16*>(p.data) + at, p.col_stride, n);
    case tile::StorageFormat::f16: return load_strided<V>(static_cast<const F16*>(p.data) + at, p.col_stride, n);
    case tile::StorageFormat::f32: return load_strided<V>(static_cast<const float*>(p.data) + at, p.col_stride, n);
    default: RIDGE_CHECK(false, "validate_epilogue() accepts no other dtype");
  }
}

template <class V> V load_sums(const tile::EpilogueTile& x, std::int64_t at, int n) {
  if (!x.are_int32) return load_partial<V>(static_cast<const float*>(x.sums) + at, n);
  std::int32_t values[V::lanes] = {};
  std::memcpy(values, static_cast<const std::int32_t*>(x.sums) + at, static_cast<std::size_t>(n) * sizeof values[0]);
  return to_float(V::Int::load(values));
}

template <class V, class T> void store_vector(V y, void* out, std::int64_t at, int n, std::int64_t stride) {
  T* const to = static_cast<T*>(out) + at;
  if (n == V::lanes && stride == 1) return y.store(to);
  store_partial(y, to, n, stride);
}

// Stores n elements, clamped to the range of int8 and rounded to even. NaN becomes 0.
template <class V> void store_int8(V y, void* out, std::int64_t at, int n, std::int64_t stride) {
  const V clamped = lane_min(V::broadcast(127), lane_max(V::broadcast(-128), select(is_nan(y), V::broadcast(0), y)));
  float values[V::lanes];
  round_even(clamped).store(values);
  std::int8_t* const to = static_cast<std::int8_t*>(out) + at;
  for (int i = 0; i < n; ++i) to[i * stride] = static_cast<std::int8_t>(values[i]);
}

template <class V> void apply_and_store_tile(const tile::EpilogueTile& x) {
  const tile::Epilogue& f = x.epilogue;
  for (std::int64_t i = 0; i < x.row.size; ++i)
    for (std::int64_t j = 0; j < x.col.size; j += V::lanes) {
      const int n = static_cast<int>(std::min<std::int64_t>(V::lanes, x.col.size - j));
      const std::int64_t row = x.row.begin + i, col = x.col.begin + j;
      const V y = tile::apply_epilogue<LaneMath<V>>(f, load_sums<V>(x, i * x.sums_stride + j, n), [&](const auto& p) {
        return load_operand<V>(p, x.batch * p.batch_stride + row * p.row_stride + col * p.col_stride, n);
      });
      const std::int64_t at = x.batch * x.batch_stride + row * x.row_stride + col * x.col_stride;
      switch (f.format) {
        case tile::StorageFormat::bf16: store_vector<V, Bf16>(y, x.out, at, n, x.col_stride); break;
        case tile::StorageFormat::f16: store_vector<V, F16>(y, x.out, at, n, x.col_stride); break;
        case tile::StorageFormat::f32: store_vector<V, float>(y, x.out, at, n, x.col_stride); break;
        case tile::StorageFormat::int8: store_int8<V>(y, x.out, at, n, x.col_stride); break;
        default: RIDGE_CHECK(false, "unsupported_reason() accepts no other dtype");
      }
    }
}

}  // namespace
}  // namespace ridge::ops

namespace ridge::ops::RIDGE_BODY_ISA {

void apply_epilogue(const tile::EpilogueTile& tile) { apply_and_store_tile<FloatLanes>(tile); }

}  // namespace ridge::ops::RIDGE_BODY_ISA

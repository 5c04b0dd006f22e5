// Loads and stores between vectors of floats and arrays of f32, bf16 or f16 of any length at any address. Partial
// vectors are copied bytewise, so nothing outside the array is read or written. Non-temporal stores write two full
// vectors at addresses aligned to the bytes that they store.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ridge/base/check.h"
#include "ridge/base/dtype_set.h"
#include "ridge/ops/function/vector_math_lanes.h"

namespace ridge::ops {
namespace {

inline std::int64_t dtype_bytes(DType dtype) { return dtype_bits(dtype) / 8; }

// Calls f with `data` as a pointer to the storage type of `dtype`.
template <class F> void with_typed_pointer(DType dtype, void* data, F f) {
  const bool is_called = StoredFloats::dispatch(dtype, [&]<class T>() { f(static_cast<T*>(data)); });
  RIDGE_CHECK(is_called, "callers accept no other dtype");
}

template <class V, class T> [[gnu::always_inline]] inline V load_partial(const T* from, int n) {
  if (n == V::lanes) return V::load(from);
  if constexpr (std::is_same_v<T, float>) {
    return V::load_partial(from, n);
  } else {
    T part[V::lanes] = {};
    std::memcpy(part, from, static_cast<std::size_t>(n) * sizeof(T));
    return V::load(part);
  }
}

template <class V, class T> void store_partial(V value, T* to, int n, std::int64_t stride = 1) {
  T part[V::lanes];
  value.store(part);
  if (stride == 1)
    std::memcpy(to, part, static_cast<std::size_t>(n) * sizeof(T));
  else
    for (int k = 0; k < n; ++k) std::memcpy(to + k * stride, &part[k], sizeof(T));
}

// Two vectors of adjacent elements. If loaded with `even_odd`, a has the even bf16 and b the odd ones; operands that
// are combined must have the same order.
template <class V> struct VectorPair { V a, b; };
template <class V, bool even_odd, class T> [[gnu::always_inline]] inline VectorPair<V> load_pair(const T* from) {
  if constexpr (even_odd) {
    VectorPair<V> two;
    V::load_even_odd(from, two.a, two.b);
    return two;
  } else {
    return {V::load(from), V::load(from + V::lanes)};
  }
}
template <class V, bool even_odd, class T>
[[gnu::always_inline]] inline void store_pair(VectorPair<V> two, T* to, bool stream) {
  if constexpr (even_odd) {
    stream ? V::stream_even_odd(two.a, two.b, to) : V::store_even_odd(two.a, two.b, to);
  } else if (stream) {
    V::stream_pair(two.a, two.b, to);
  } else {
    two.a.store(to);
    two.b.store(to + V::lanes);
  }
}

// Prefetch distances of loops over arrays; without prefetches a core that also computes issues too few loads to
// saturate memory. Elements of 16 bits are prefetched into the L1. A loop over 32-bit elements advances faster than
// memory delivers, so these are prefetched further in advance and into the L2, which tracks more misses.
struct PrefetchL1 {
  static constexpr int distance_bytes = 4096, locality = 3;
};
struct PrefetchL2 {
  static constexpr int distance_bytes = 8192, locality = 2;
};
template <class T> using PrefetchFor = std::conditional_t<sizeof(T) == 2, PrefetchL1, PrefetchL2>;
template <class Prefetch, int elements, class T> [[gnu::always_inline]] inline void prefetch_lines(const T* from) {
  constexpr int line = 64, bytes = elements * static_cast<int>(sizeof(T));
#pragma GCC unroll 4
  for (int at = 0; at < bytes; at += line)
    __builtin_prefetch(reinterpret_cast<const char*>(from) + Prefetch::distance_bytes + at, 0, Prefetch::locality);
}

// Converts n elements to f32.
template <class V, class T> void widen_array(const T* from, std::int64_t n, float* to) {
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) V::load(from + i).store(to + i);
  if (const int rest = static_cast<int>(n - i); rest > 0) load_partial<V>(from + i, rest).store_partial(to + i, rest);
}

// Rounds n elements from f32. If `stream` is true, full lines are stored without reading them into the caches; a
// V::store_fence() must follow.
template <class V, class T> void round_array(const float* from, std::int64_t n, T* to, bool stream) {
  const auto round_up_to = [&](std::int64_t i, std::int64_t end) {
    for (; i < end; i += V::lanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(V::lanes, end - i));
      store_partial(load_partial<V>(from + i, count), to + i, count);
    }
  };
  if (!stream || reinterpret_cast<std::uintptr_t>(to) % sizeof(T) != 0) {
    std::int64_t i = 0;
    for (; i + V::lanes <= n; i += V::lanes) V::load(from + i).store(to + i);
    return round_up_to(i, n);
  }
  const auto bytes_to_line = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(to) % 64);
  std::int64_t i = std::min<std::int64_t>(n, bytes_to_line / static_cast<std::int64_t>(sizeof(T)));
  round_up_to(0, i);
  for (; i + 2 * V::lanes <= n; i += 2 * V::lanes) store_pair<V, false>(load_pair<V, false>(from + i), to + i, true);
  round_up_to(i, n);
}

// Converts n elements, `stride` elements apart, to contiguous f32.
template <class V, class T> void gather_strided(const T* from, std::int64_t stride, std::int64_t n, float* to) {
  T part[V::lanes] = {};
  for (std::int64_t i = 0; i < n; i += V::lanes) {
    const int count = static_cast<int>(std::min<std::int64_t>(V::lanes, n - i));
    for (int k = 0; k < count; ++k) std::memcpy(&part[k], from + (i + k) * stride, sizeof(T));
    V::load(part).store_partial(to + i, count);
  }
}

}  // namespace
}  // namespace ridge::ops

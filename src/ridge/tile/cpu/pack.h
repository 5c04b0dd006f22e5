// Packing in plain C++, for instruction sets without faster packing. A panel of units is [steps][width]. A unit has the
// elements of one step of k: one f32 (shorter formats are widened) or several short elements. W is the element type in
// the panel, T the element type in memory. Tag is a type of an unnamed namespace: see block.h.
#pragma once

#include <cstring>

#include "ridge/base/float16.h"
#include "ridge/tile/cpu/engine.h"

namespace ridge::tile::cpu {

// Returns x converted to W, which represents it exactly.
template <class Tag, class W, class T> [[gnu::always_inline]] inline W exact_cast(T x) {
  if constexpr (__is_same(W, T)) {
    return x;
  } else if constexpr (__is_same(W, Bf16)) {
    return to_bf16(static_cast<float>(x));
  } else if constexpr (requires { to_float(x); }) {
    return to_float(x);
  } else {
    return static_cast<W>(x);
  }
}

template <class W> inline constexpr int per_unit = sizeof(Unit) / sizeof(W);

// Returns the unit of p[0], p[stride], …; elements from index `count` on are zero.
template <class Tag, class T, class W>
[[gnu::always_inline]] inline Unit make_unit(const T* p, Index stride, Index count) {
  W parts[per_unit<W>] = {};
  for (Index i = 0; i < (count < per_unit<W> ? count : per_unit<W>); ++i) parts[i] = exact_cast<Tag, W>(p[i * stride]);
  return __builtin_bit_cast(Unit, parts);
}

template <class Tag, class T, class W> void pack_along_k(const PackArgs& x) {
  const T* const source = static_cast<const T*>(x.source);
  for (Index k = 0, step = 0; k < x.k; k += per_unit<W>, ++step) {
    Unit* const out = x.out + step * x.width;
    for (int i = 0; i < x.lanes; ++i) out[i] = make_unit<Tag, T, W>(source + i * x.stride + k, 1, x.k - k);
    for (int i = x.lanes; i < x.width; ++i) out[i] = 0;
  }
}

template <class Tag, class T, class W> void pack_across_k(const PackArgs& x) {
  const T* const source = static_cast<const T*>(x.source);
  for (Index k = 0, step = 0; k < x.k; k += per_unit<W>, ++step) {
    Unit* const out = x.out + step * x.width;
    for (int i = 0; i < x.lanes; ++i) out[i] = make_unit<Tag, T, W>(source + k * x.stride + i, x.stride, x.k - k);
    for (int i = x.lanes; i < x.width; ++i) out[i] = 0;
  }
}

template <class Tag, class T, class W>
inline constexpr Packers packers{pack_along_k<Tag, T, W>, pack_across_k<Tag, T, W>};

}  // namespace ridge::tile::cpu

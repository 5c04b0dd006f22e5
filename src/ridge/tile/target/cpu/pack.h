// Packing in plain C++, for instruction sets that bring nothing better: panels of units, [steps][width]. A unit holds
// what one step of k multiplies: an f32 (shorter formats are widened here, once, so that the multiply never sees them)
// or several short elements side by side. Tag is a type of an unnamed namespace: see block.h.
#pragma once

#include <cstring>

#include "ridge/base/float16.h"
#include "ridge/tile/target/cpu/engine.h"

namespace ridge::tile::cpu {

template <class Tag, class T> [[gnu::always_inline]] inline float widened(T x) {
  if constexpr (requires { to_float(x); }) {
    return to_float(x);
  } else {
    return static_cast<float>(x);
  }
}

// The unit of elements p[0], p[stride], … of which `count` exist.
template <class Tag, class T, int per_unit>
[[gnu::always_inline]] inline Unit unit_of(const T* p, Index stride, Index count) {
  if constexpr (per_unit == 1) {
    return __builtin_bit_cast(Unit, widened<Tag>(*p));
  } else {
    T parts[per_unit] = {};
    for (Index i = 0; i < (count < per_unit ? count : per_unit); ++i) parts[i] = p[i * stride];
    return __builtin_bit_cast(Unit, parts);
  }
}

template <class Tag, class T, int per_unit> void pack_along(const Packing& x) {
  const T* const source = static_cast<const T*>(x.source);
  for (Index k = 0, step = 0; k < x.k; k += per_unit, ++step) {
    Unit* const out = x.out + step * x.width;
    for (int i = 0; i < x.lanes; ++i) out[i] = unit_of<Tag, T, per_unit>(source + i * x.stride + k, 1, x.k - k);
    for (int i = x.lanes; i < x.width; ++i) out[i] = 0;
  }
}

template <class Tag, class T, int per_unit> void pack_across(const Packing& x) {
  const T* const source = static_cast<const T*>(x.source);
  for (Index k = 0, step = 0; k < x.k; k += per_unit, ++step) {
    Unit* const out = x.out + step * x.width;
    for (int i = 0; i < x.lanes; ++i) out[i] = unit_of<Tag, T, per_unit>(source + k * x.stride + i, x.stride, x.k - k);
    for (int i = x.lanes; i < x.width; ++i) out[i] = 0;
  }
}

}  // namespace ridge::tile::cpu

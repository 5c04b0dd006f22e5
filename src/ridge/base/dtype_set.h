// The dtypes that some code supports, as one list that is checked, printed and dispatched on. A dtype outside the list
// is never taken for another:
//
//   using Reduced = DTypeSet<DType::f32, DType::bf16>;
//   Reduced::dispatch(dtype, [&]<class T>() { reduce<T>(data); });  // reduce<Bf16> for bf16; false for f16
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "ridge/base/error.h"
#include "ridge/base/float16.h"

namespace ridge {

template <DType... members> struct DTypeSet {
  // Always inlined, as the conversions of float16.h, so that no copy needs the instruction set of another source.
  [[gnu::always_inline]] static constexpr bool contains(DType dtype) { return ((dtype == members) || ...); }
  // True if T is the storage type of a member.
  template <class T> static constexpr bool stores_as() { return (std::is_same_v<T, storage_t<members>> || ...); }
  // Calls f.template operator()<T>() with the storage type T of the dtype, or returns false if it is no member.
  template <class F> [[gnu::always_inline]] static constexpr bool dispatch(DType dtype, const F& f) {
    return (call_if_equal<members>(dtype, f) || ...);
  }
  // Returns f.template operator()<T>(), a Result, or the error below if the dtype is no member.
  template <class F> static auto dispatch_or_error(const std::string& what, DType dtype, const F& f);
  // Returns the names as in "f32, bf16 or f16".
  static std::string names() {
    constexpr DType all[] = {members...};
    constexpr std::size_t count = sizeof...(members);
    std::string out(dtype_name(all[0]));
    for (std::size_t i = 1; i < count; ++i) out += (i + 1 < count ? ", " : " or ") + std::string(dtype_name(all[i]));
    return out;
  }

 private:
  template <DType member, class F> [[gnu::always_inline]] static constexpr bool call_if_equal(DType dtype, const F& f) {
    if (dtype != member) return false;
    f.template operator()<storage_t<member>>();
    return true;
  }
};

using SixteenBitFloats = DTypeSet<DType::bf16, DType::f16>;
using StoredFloats = DTypeSet<DType::f32, DType::bf16, DType::f16>;  // widened to f32 when loaded
using RoundedFloats = DTypeSet<DType::f32, DType::tf32, DType::bf16, DType::f16, DType::e4m3>;  // see `round_to`
// Filled with random numbers in device memory.
using RandomDTypes = DTypeSet<DType::f32, DType::tf32, DType::bf16, DType::f16, DType::e4m3, DType::int8>;
using ReducedDTypes = DTypeSet<DType::f32, DType::bf16, DType::f16, DType::int32>;  // combined across ranks

// All dtypes with a storage type (float16.h).
using StorageDTypes =
    DTypeSet<DType::f32, DType::tf32, DType::bf16, DType::f16, DType::e4m3, DType::int32, DType::int8>;

// Returns the value of a stored element; integers are exact.
template <class T> constexpr double to_double(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(x);
  else
    return to_float(x);
}
// Rounds to a type of RoundedFloats.
template <class T> constexpr T round_to(float x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(x);
  else if constexpr (std::is_same_v<T, F16>)
    return to_f16(x);
  else if constexpr (std::is_same_v<T, E4m3>)
    return to_e4m3(x);
  else {
    static_assert(std::is_same_v<T, float>, "round_to: expected a type of RoundedFloats");
    return x;
  }
}

// Error for a dtype that is no member: "q: expected bf16 or f16, found e4m3".
template <class Set> Error dtype_error(const std::string& what, DType found) {
  return input_error(what + ": expected " + Set::names() + ", found " + std::string(dtype_name(found)));
}

template <DType... members> template <class F>
auto DTypeSet<members...>::dispatch_or_error(const std::string& what, DType dtype, const F& f) {
  using Out = std::common_type_t<decltype(f.template operator()<storage_t<members>>())...>;
  std::optional<Out> out;
  dispatch(dtype, [&]<class T>() { static_cast<void>(out.emplace(f.template operator()<T>())); });
  return out ? *std::move(out) : Out(dtype_error<DTypeSet>(what, dtype));
}

}  // namespace ridge

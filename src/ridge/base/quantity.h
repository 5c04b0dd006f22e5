// Numbers with a unit type, so that the compiler rejects an inverted intensity or a rate used as a time.
//   Flops{1e12} / FlopRate{9.89e14} is Seconds;  FlopRate{1.97e14} / ByteRate{8.19e11} is an Intensity (the ridge).
// FLOPs count a multiply-add as 2. Rates are decimal (GB/s = 1e9 B/s).
#pragma once

#include <compare>

namespace ridge {

template <class Unit> struct Quantity {
  double value = 0;
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity o) const { return {value + o.value}; }
  constexpr Quantity operator-(Quantity o) const { return {value - o.value}; }
  constexpr Quantity operator*(double s) const { return {value * s}; }
  constexpr double operator/(Quantity o) const { return value / o.value; }
};

using Flops = Quantity<struct FlopsUnit>;          // FLOP (integer formats: OP)
using Bytes = Quantity<struct BytesUnit>;          // B
using Seconds = Quantity<struct SecondsUnit>;      // s
using FlopRate = Quantity<struct FlopRateUnit>;    // FLOP/s
using ByteRate = Quantity<struct ByteRateUnit>;    // B/s
using Intensity = Quantity<struct IntensityUnit>;  // FLOP/B

constexpr Seconds operator/(Flops a, FlopRate b) { return {a.value / b.value}; }
constexpr Seconds operator/(Bytes a, ByteRate b) { return {a.value / b.value}; }
constexpr FlopRate operator/(Flops a, Seconds b) { return {a.value / b.value}; }
constexpr ByteRate operator/(Bytes a, Seconds b) { return {a.value / b.value}; }
constexpr Intensity operator/(Flops a, Bytes b) { return {a.value / b.value}; }
constexpr Intensity operator/(FlopRate a, ByteRate b) { return {a.value / b.value}; }
constexpr FlopRate operator*(Intensity a, ByteRate b) { return {a.value * b.value}; }

}  // namespace ridge

// The number formats that a tensor can be stored in. One table beside the enum holds the spelling and the size, so that
// nothing has to be kept in sync. Compiles under nvcc: no fmt, no strings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge {

enum class DType : std::uint8_t { f64, f32, tf32, bf16, f16, e4m3, e5m2, int32, int16, int8, int4 };

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // the notation's spelling
  int bits;               // in memory; tf32 is a way to multiply f32, so it takes 32
  bool integer;
  int rank;  // of two operands the one of higher rank is the wider: it decides the peak and the result
};

inline constexpr std::array<DTypeInfo, 11> dtypes{{
    {DType::f64, "f64", 64, false, 10},
    {DType::f32, "f32", 32, false, 9},
    {DType::tf32, "tf32", 32, false, 8},
    {DType::bf16, "bf16", 16, false, 7},
    {DType::f16, "f16", 16, false, 6},
    {DType::e4m3, "e4m3", 8, false, 5},
    {DType::e5m2, "e5m2", 8, false, 4},
    {DType::int32, "int32", 32, true, 3},
    {DType::int16, "int16", 16, true, 2},
    {DType::int8, "int8", 8, true, 1},
    {DType::int4, "int4", 4, true, 0},
}};

constexpr const DTypeInfo& info(DType dtype) { return dtypes[static_cast<std::size_t>(dtype)]; }
constexpr std::string_view name(DType dtype) { return info(dtype).name; }
constexpr int bits(DType dtype) { return info(dtype).bits; }

constexpr DType wider(DType a, DType b) { return info(a).rank >= info(b).rank ? a : b; }

// Other spellings that the notation accepts: bfloat16, fp16, float32, …
struct DTypeSynonym {
  std::string_view spelling;
  DType dtype;
};
inline constexpr std::array<DTypeSynonym, 12> dtype_synonyms{{
    {"bfloat16", DType::bf16},
    {"fp64", DType::f64},
    {"float64", DType::f64},
    {"fp32", DType::f32},
    {"float32", DType::f32},
    {"fp16", DType::f16},
    {"float16", DType::f16},
    {"half", DType::f16},
    {"fp8", DType::e4m3},
    {"float8", DType::e4m3},
    {"i8", DType::int8},
    {"i32", DType::int32},
}};

constexpr std::optional<DType> dtype_from(std::string_view spelling) {
  for (const DTypeInfo& d : dtypes)
    if (d.name == spelling) return d.dtype;
  for (const DTypeSynonym& s : dtype_synonyms)
    if (s.spelling == spelling) return s.dtype;
  return std::nullopt;
}

}  // namespace ridge

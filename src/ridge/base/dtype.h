// The number formats that a tensor can be stored in. One table beside the enum holds the spelling and the size, so that
// nothing has to be kept in sync. Compiles under nvcc: no fmt, no strings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge {

// mxfp8, mxfp4, nvfp4 and e4m3_128 are block-scaled: so many elements along a tensor's last dimension share a scale, by
// which each is multiplied. An mxfp4 is an e2m1 with a scale of 8 bits (a power of two) for 32 of them: 4.25 bits each.
// Sources: OCP Microscaling Formats (MX) Specification 1.0, tables 1 and 2; NVIDIA, cuBLAS, block scaling (16 elements
// and an e4m3; the one f32 of a whole nvfp4 tensor is left out). e4m3_128 has an f32 for 128 elements.
enum class DType : std::uint8_t {
  f64,
  f32,
  tf32,
  bf16,
  f16,
  e4m3,
  e5m2,
  int32,
  int16,
  int8,
  int4,
  u8,
  e2m1,
  mxfp8,
  mxfp4,
  nvfp4,
  e4m3_128
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // the notation's spelling
  int bits;               // of an element in memory, without its share of a scale; tf32 is a way to multiply f32: 32
  bool integer;
  int rank;       // of two operands the one of higher rank is the wider: it decides the peak and the result
  DType element;  // what the matrix unit multiplies it as
  int block = 0, scale_bits = 0;  // elements that share a scale, and its bits; 0: none do
};

inline constexpr std::array<DTypeInfo, 17> dtypes{{
    {DType::f64, "f64", 64, false, 16, DType::f64},
    {DType::f32, "f32", 32, false, 15, DType::f32},
    {DType::tf32, "tf32", 32, false, 14, DType::tf32},
    {DType::bf16, "bf16", 16, false, 13, DType::bf16},
    {DType::f16, "f16", 16, false, 12, DType::f16},
    {DType::e4m3, "e4m3", 8, false, 11, DType::e4m3},
    {DType::e5m2, "e5m2", 8, false, 10, DType::e5m2},
    {DType::int32, "int32", 32, true, 4, DType::int32},
    {DType::int16, "int16", 16, true, 3, DType::int16},
    {DType::int8, "int8", 8, true, 2, DType::int8},
    {DType::int4, "int4", 4, true, 0, DType::int4},
    {DType::u8, "u8", 8, true, 1, DType::int8},
    {DType::e2m1, "e2m1", 4, false, 5, DType::e2m1},
    {DType::mxfp8, "mxfp8", 8, false, 8, DType::e4m3, 32, 8},
    {DType::mxfp4, "mxfp4", 4, false, 6, DType::e2m1, 32, 8},
    {DType::nvfp4, "nvfp4", 4, false, 7, DType::e2m1, 16, 8},
    {DType::e4m3_128, "e4m3_128", 8, false, 9, DType::e4m3, 128, 32},
}};

constexpr const DTypeInfo& info(DType dtype) { return dtypes[static_cast<std::size_t>(dtype)]; }
constexpr std::string_view name(DType dtype) { return info(dtype).name; }
constexpr int bits(DType dtype) { return info(dtype).bits; }
constexpr bool is_scaled(DType dtype) { return info(dtype).block > 0; }

// Bits of so many elements, with the scales of their blocks: 136 of 32 mxfp4. One element where none share a scale.
struct StoredBits {
  int bits, elements;
};
constexpr StoredBits stored_bits(DType dtype) {
  const DTypeInfo& d = info(dtype);
  return is_scaled(dtype) ? StoredBits{d.bits * d.block + d.scale_bits, d.block} : StoredBits{d.bits, 1};
}
// Of whole blocks, and of elements of whole bytes: what arrays are made of that something runs on.
constexpr std::int64_t stored_bytes(DType dtype, std::int64_t elements) {
  const StoredBits stored = stored_bits(dtype);
  return elements / stored.elements * (stored.bits / 8);
}
constexpr double bytes_per_element(DType dtype) {
  return stored_bits(dtype).bits / (8.0 * stored_bits(dtype).elements);
}

constexpr DType wider(DType a, DType b) { return info(a).rank >= info(b).rank ? a : b; }

// Other spellings that the notation accepts: bfloat16, fp16, float32, …
struct DTypeSynonym {
  std::string_view spelling;
  DType dtype;
};
inline constexpr std::array<DTypeSynonym, 14> dtype_synonyms{{
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
    {"uint8", DType::u8},
    {"fp4", DType::e2m1},
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

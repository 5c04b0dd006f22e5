// Number formats of tensor elements. One table holds the name and size of each enumerator. Compiles under nvcc: no fmt,
// no strings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge {

// mxfp8, mxfp4, nvfp4, e4m3_128, int4_32 to int4_128 and u4_32 to u4_128 are block-scaled: a block of elements along a
// tensor's last dimension shares a scale that multiplies each. mxfp4 elements are e2m1; each 32 share an 8-bit scale (a
// power of two): 4.25 bits per element. Sources: OCP Microscaling Formats (MX) Specification 1.0, tables 1 and 2;
// NVIDIA, cuBLAS, block scaling (16 elements per e4m3 scale; the f32 scale per nvfp4 tensor is not modelled). e4m3_128
// has one f32 scale per 128 elements. The number in the name of an integer format is its block; it has an f16 scale,
// and u4 has a zero point, too, as the files of GPTQ and AWQ have.
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
  e4m3_128,
  int4_32,
  int4_64,
  int4_128,
  u4_32,
  u4_64,
  u4_128
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // the notation's spelling
  int bits;               // bits of an element without its scale; 32 for tf32, which is stored as f32
  bool is_integer;
  int rank;                       // the operand of higher rank determines the peak rate and the result's dtype
  DType element;                  // dtype that the matrix unit multiplies
  int block = 0, scale_bits = 0;  // elements per scale and bits of a scale; 0 without scales
};

inline constexpr std::array<DTypeInfo, 23> dtypes{{
    {DType::f64, "f64", 64, false, 22, DType::f64},
    {DType::f32, "f32", 32, false, 21, DType::f32},
    {DType::tf32, "tf32", 32, false, 20, DType::tf32},
    {DType::bf16, "bf16", 16, false, 19, DType::bf16},
    {DType::f16, "f16", 16, false, 18, DType::f16},
    {DType::e4m3, "e4m3", 8, false, 17, DType::e4m3},
    {DType::e5m2, "e5m2", 8, false, 16, DType::e5m2},
    {DType::int32, "int32", 32, true, 4, DType::int32},
    {DType::int16, "int16", 16, true, 3, DType::int16},
    {DType::int8, "int8", 8, true, 2, DType::int8},
    {DType::int4, "int4", 4, true, 0, DType::int4},
    {DType::u8, "u8", 8, true, 1, DType::int8},
    {DType::e2m1, "e2m1", 4, false, 11, DType::e2m1},
    {DType::mxfp8, "mxfp8", 8, false, 14, DType::e4m3, 32, 8},
    {DType::mxfp4, "mxfp4", 4, false, 12, DType::e2m1, 32, 8},
    {DType::nvfp4, "nvfp4", 4, false, 13, DType::e2m1, 16, 8},
    {DType::e4m3_128, "e4m3_128", 8, false, 15, DType::e4m3, 128, 32},
    {DType::int4_32, "int4_32", 4, false, 5, DType::int4, 32, 16},
    {DType::int4_64, "int4_64", 4, false, 6, DType::int4, 64, 16},
    {DType::int4_128, "int4_128", 4, false, 7, DType::int4, 128, 16},
    {DType::u4_32, "u4_32", 4, false, 8, DType::int4, 32, 32},
    {DType::u4_64, "u4_64", 4, false, 9, DType::int4, 64, 32},
    {DType::u4_128, "u4_128", 4, false, 10, DType::int4, 128, 32},
}};

constexpr const DTypeInfo& dtype_info(DType dtype) { return dtypes[static_cast<std::size_t>(dtype)]; }
constexpr std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
constexpr int dtype_bits(DType dtype) { return dtype_info(dtype).bits; }
constexpr bool is_block_scaled(DType dtype) { return dtype_info(dtype).block > 0; }
// True for the block-scaled integers, int4_32 to u4_128, and for those of them that have zero points.
constexpr bool has_integer_blocks(DType dtype) {
  return is_block_scaled(dtype) && dtype_info(dtype).element == DType::int4;
}
constexpr bool has_zero_points(DType dtype) { return has_integer_blocks(dtype) && dtype_info(dtype).scale_bits == 32; }

// Size of a block: bits, including the scale, and number of elements; 136 and 32 for mxfp4. Without scales a block is 1
// element.
struct ScaleBlockBits {
  int bits, elements;
};
constexpr ScaleBlockBits scale_block_bits(DType dtype) {
  const DTypeInfo& d = dtype_info(dtype);
  return is_block_scaled(dtype) ? ScaleBlockBits{d.bits * d.block + d.scale_bits, d.block} : ScaleBlockBits{d.bits, 1};
}
// Returns the bytes of `elements` elements, a multiple of the block. Only for block-scaled dtypes and dtypes of at
// least 8 bits; kernels use no others.
constexpr std::int64_t stored_bytes(DType dtype, std::int64_t elements) {
  const ScaleBlockBits stored = scale_block_bits(dtype);
  return elements / stored.elements * (stored.bits / 8);
}
constexpr double bytes_per_element(DType dtype) {
  return scale_block_bits(dtype).bits / (8.0 * scale_block_bits(dtype).elements);
}

constexpr DType wider_dtype(DType a, DType b) { return dtype_info(a).rank >= dtype_info(b).rank ? a : b; }

// Synonyms that the notation accepts: bfloat16, fp16, float32, …
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

constexpr std::optional<DType> parse_dtype(std::string_view spelling) {
  for (const DTypeInfo& d : dtypes)
    if (d.name == spelling) return d.dtype;
  for (const DTypeSynonym& s : dtype_synonyms)
    if (s.spelling == spelling) return s.dtype;
  return std::nullopt;
}

}  // namespace ridge

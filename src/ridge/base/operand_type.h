// The types that Hopper's matrix instructions multiply (wgmma). An instruction multiplies 32 bytes along k, and the
// copy engine (TMA) swizzles 128 bytes: of bf16 these are 16 and 64 elements, of an 8-bit type 32 and 128, and of tf32,
// which is stored as f32, 8 and 32. Sums are f32; those of int8 are int32. Kernels, launchers and the planner derive
// their numbers of elements from these bytes. docs/add_a_dtype.md lists what a new type needs.
#pragma once

#include "ridge/base/dtype_set.h"

namespace ridge {

inline constexpr int wgmma_bytes = 32, swizzle_bytes = 128;

// Operands of products. Gated layers and attention have `SixteenBitFloats`.
using OperandDTypes = DTypeSet<DType::bf16, DType::f16, DType::e4m3, DType::tf32, DType::e4m3_128, DType::int8>;

template <class T> struct OperandType {
  static_assert(OperandDTypes::stores_as<T>(), "expected a type of OperandDTypes");
  // The type of the elements that instructions multiply
  using Element = std::conditional_t<std::is_same_v<T, ScaledE4m3>, E4m3, T>;
  static constexpr int bytes = sizeof(Element);
  static constexpr int k = wgmma_bytes / bytes;  // elements along k that one instruction multiplies
  using Sum = std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, float>;
  using Result = std::conditional_t<bytes == 2, Element, Bf16>;  // type of D in kernels, which store pairs of 16 bits
  // The integer with the bits of an element
  using Word =
      std::conditional_t<bytes == 4, std::uint32_t, std::conditional_t<bytes == 2, std::uint16_t, std::uint8_t>>;
};

// The member of OperandDTypes whose storage type is T.
template <class T> inline constexpr DType operand_dtype = DType::bf16;
template <> inline constexpr DType operand_dtype<F16> = DType::f16;
template <> inline constexpr DType operand_dtype<E4m3> = DType::e4m3;
template <> inline constexpr DType operand_dtype<float> = DType::tf32;
template <> inline constexpr DType operand_dtype<ScaledE4m3> = DType::e4m3_128;
template <> inline constexpr DType operand_dtype<std::int8_t> = DType::int8;

// The same numbers for a dtype. Elements of four bits, which only weights have, count as one byte.
constexpr int operand_bytes(DType dtype) { return (dtype_bits(dtype) + 7) / 8; }
constexpr bool has_integer_sums(DType operand) { return operand == DType::int8; }
constexpr DType result_dtype(DType operand) { return dtype_bits(operand) == 16 ? operand : DType::bf16; }
constexpr int swizzled_elements(DType dtype) { return swizzle_bytes / operand_bytes(dtype); }

}  // namespace ridge

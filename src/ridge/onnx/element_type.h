// Element types of ONNX tensors, TensorProto.DataType. Ridge has no dtype for some of them, such as int64 and bool;
// they have a size only.
#pragma once

#include <optional>
#include <string_view>

#include "ridge/base/dtype.h"

namespace ridge::onnx {

enum class ElementKind { floating, signed_integer, unsigned_integer, other };

struct ElementType {
  int code = 0;  // TensorProto.DataType
  std::string_view name;
  int bits = 0;  // 0 for strings and unknown types, whose size is unknown
  ElementKind kind = ElementKind::other;
  std::optional<DType> dtype = {};  // Dtype of products; nullopt if matrix units have none
};

inline constexpr ElementType element_types[] = {
    {1, "float32", 32, ElementKind::floating, DType::f32},
    {2, "uint8", 8, ElementKind::unsigned_integer, DType::int8},
    {3, "int8", 8, ElementKind::signed_integer, DType::int8},
    {4, "uint16", 16, ElementKind::unsigned_integer, DType::int16},
    {5, "int16", 16, ElementKind::signed_integer, DType::int16},
    {6, "int32", 32, ElementKind::signed_integer, DType::int32},
    {7, "int64", 64, ElementKind::signed_integer, std::nullopt},
    {8, "string", 0, ElementKind::other, std::nullopt},
    {9, "bool", 8, ElementKind::unsigned_integer, std::nullopt},
    {10, "float16", 16, ElementKind::floating, DType::f16},
    {11, "double", 64, ElementKind::floating, DType::f64},
    {12, "uint32", 32, ElementKind::unsigned_integer, DType::int32},
    {13, "uint64", 64, ElementKind::unsigned_integer, std::nullopt},
    {14, "complex64", 64, ElementKind::other, std::nullopt},
    {15, "complex128", 128, ElementKind::other, std::nullopt},
    {16, "bfloat16", 16, ElementKind::floating, DType::bf16},
    {17, "float8e4m3fn", 8, ElementKind::other, DType::e4m3},
    {18, "float8e4m3fnuz", 8, ElementKind::other, DType::e4m3},
    {19, "float8e5m2", 8, ElementKind::other, DType::e5m2},
    {20, "float8e5m2fnuz", 8, ElementKind::other, DType::e5m2},
    {21, "uint4", 4, ElementKind::unsigned_integer, DType::int4},
    {22, "int4", 4, ElementKind::signed_integer, DType::int4},
    {23, "float4e2m1", 4, ElementKind::other, DType::e2m1},
    {24, "float8e8m0", 8, ElementKind::other, std::nullopt},
    {25, "uint2", 2, ElementKind::unsigned_integer, std::nullopt},
    {26, "int2", 2, ElementKind::signed_integer, std::nullopt},
};

inline constexpr int float_type = 1, uint8_type = 2, int8_type = 3, int32_type = 6, int64_type = 7, bool_type = 9;

// Returns the type of a code; an unknown one has no name and no bits.
constexpr ElementType find_element_type(int code) {
  for (const ElementType& type : element_types)
    if (type.code == code) return type;
  return {};
}

}  // namespace ridge::onnx

// The epilogue of a product, defined once for every target. A sum x is stored as y:
//
//   y = activation(alpha * scale * x + bias) * gate + beta * addend
//
// An operand whose data is null is omitted. Each operand is a matrix whose strides may be 0: a bias or an int8 weight
// scale per column has strides 0, 1. A target supplies the arithmetic (`Math`: all, `apply_activation`) and a function
// that reads an operand. V is a vector of floats.
#pragma once

#include <cstdint>

#include "ridge/base/check.h"
#include "ridge/base/dtype.h"
#include "ridge/tile/function.h"

namespace ridge::tile {

// int8: rounded to even, clamped to -128 … 127. e4m3: only loaded. int32: sums of int8 that are stored as they are.
enum class StorageFormat : std::uint8_t { bf16, f16, f32, int8, e4m3, int32 };
// Returns the format of a dtype that kernels load or store; `unsupported_reason` of each operation rejects all others.
inline StorageFormat to_storage_format(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::tf32: return StorageFormat::f32;
    case DType::e4m3: return StorageFormat::e4m3;
    case DType::bf16: return StorageFormat::bf16;
    case DType::f16: return StorageFormat::f16;
    case DType::int8: return StorageFormat::int8;
    case DType::int32: return StorageFormat::int32;
    default: break;
  }
  RIDGE_CHECK(false, dtype_name(dtype));
}
// The same for kernels on a device that neither load nor store integers.
inline StorageFormat to_device_format(DType dtype) {
  RIDGE_CHECK(dtype != DType::int8 && dtype != DType::int32, dtype_name(dtype));
  return to_storage_format(dtype);
}
// Returns the bytes of an element of a format that kernels load, which int32 is not.
constexpr int bytes_of(StorageFormat x) {
  if (x == StorageFormat::f32) return 4;
  return x == StorageFormat::int8 || x == StorageFormat::e4m3 ? 1 : 2;
}
enum class EpilogueActivation : std::uint8_t { none, relu, gelu, gelu_tanh, silu };

struct EpilogueInput {  // element (r, c) of product i: data[i * batch_stride + r * row_stride + c * col_stride]
  const void* data;
  StorageFormat format;
  std::int64_t row_stride, col_stride, batch_stride;
};

struct Epilogue {
  StorageFormat format;  // format of y
  EpilogueActivation activation;
  float alpha, beta;
  EpilogueInput scale, bias, gate, addend;
};

// Returns y for the sums x. `at(operand)` returns the operand's values at the positions of x.
template <class Math, class V, class Read> TILE_FN V apply_epilogue(const Epilogue& f, V x, const Read& at) {
  x = x * Math::all(f.alpha);
  if (f.scale.data) x = x * at(f.scale);
  if (f.bias.data) x = x + at(f.bias);
  x = Math::apply_activation(f.activation, x);
  if (f.gate.data) x = x * at(f.gate);
  if (f.addend.data) x = x + Math::all(f.beta) * at(f.addend);
  return x;
}

}  // namespace ridge::tile

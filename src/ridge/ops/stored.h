// Conversion from `DType` to the stored types of kernels.
#pragma once

#include "ridge/base/dtype.h"
#include "ridge/tile/epilogue.h"

namespace ridge::ops {

// Returns `Stored::f32` for all types but bf16, f16 and int8.
inline tile::StorageFormat to_stored(DType dtype) {
  switch (dtype) {
    case DType::bf16: return tile::StorageFormat::bf16;
    case DType::f16: return tile::StorageFormat::f16;
    case DType::int8: return tile::StorageFormat::int8;
    default: return tile::StorageFormat::f32;
  }
}

}  // namespace ridge::ops

// Conversion from `DType` to the storage formats of kernels.
#pragma once

#include "ridge/base/dtype.h"
#include "ridge/tile/epilogue.h"

namespace ridge::ops {

// Returns the storage format of bf16, f16 or int8, and f32 for all other types.
inline tile::StorageFormat to_storage_format(DType dtype) {
  switch (dtype) {
    case DType::bf16: return tile::StorageFormat::bf16;
    case DType::f16: return tile::StorageFormat::f16;
    case DType::int8: return tile::StorageFormat::int8;
    default: return tile::StorageFormat::f32;
  }
}

}  // namespace ridge::ops

// Conversion from `DType` to the stored types of kernels.
#pragma once

#include "ridge/base/dtype.h"
#include "ridge/tile/epilogue.h"

namespace ridge::ops {

// Returns `Stored::f32` for all types but bf16, f16 and int8.
inline tile::Stored stored(DType dtype) {
  switch (dtype) {
    case DType::bf16: return tile::Stored::bf16;
    case DType::f16: return tile::Stored::f16;
    case DType::int8: return tile::Stored::int8;
    default: return tile::Stored::f32;
  }
}

}  // namespace ridge::ops

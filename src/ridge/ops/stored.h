// How kernels say a stored type.
#pragma once

#include "ridge/base/dtype.h"
#include "ridge/tile/epilogue.h"

namespace ridge::ops {

// Of bf16, f16, f32 and int8; any other is f32's.
inline tile::Stored stored(DType dtype) {
  switch (dtype) {
    case DType::bf16: return tile::Stored::bf16;
    case DType::f16: return tile::Stored::f16;
    case DType::int8: return tile::Stored::int8;
    default: return tile::Stored::f32;
  }
}

}  // namespace ridge::ops

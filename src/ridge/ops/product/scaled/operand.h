// A block-scaled operand that is converted while it is packed. Internal to the CPU products.
#pragma once

#include "ridge/ops/product/problem.h"
#include "ridge/tile/tile.h"

namespace ridge::ops {

// Returns the dtype in which a CPU multiplies an operand. Blocks of int4 and u4 become f32, which has every product of
// an integer and an f16 scale, and others the dtype of the other operand.
constexpr DType decoded_dtype(DType operand, DType other) {
  return has_integer_blocks(operand) ? DType::f32 : multiplied_dtype(operand, other);
}

// The right operand of a product whose B is block-scaled along k.
struct BlockScaledOperand : tile::ComputedOperand {
  BlockScaledOperand(const MatmulProblem& problem, const void* b);
  DType dtype;                               // Format of copies
  std::int64_t column_stride, batch_stride;  // In elements, multiples of the block
};

}  // namespace ridge::ops

// A block-scaled operand that is converted while it is packed. Internal to the CPU products.
#pragma once

#include "ridge/ops/product/problem.h"
#include "ridge/tile/tile.h"

namespace ridge::ops {

// The right operand of a product whose B is block-scaled along k.
struct BlockScaledOperand : tile::ComputedOperand {
  BlockScaledOperand(const MatmulProblem& problem, const void* b);
  DType dtype;                               // Format of copies
  std::int64_t column_stride, batch_stride;  // In elements, multiples of the block
};

}  // namespace ridge::ops

// Describes a product with a fused chain. plan/ lowers groups of statements to it.
#pragma once

#include <optional>

#include "ridge/ops/chain/problem.h"
#include "ridge/ops/product/problem.h"

namespace ridge::ops {

// One or two products with a chain in one kernel: the sums of A * B, or of A * B and A * C, go through the chain and
// never to memory. y = (x*up + bu) * gelu(x*gate + bg) is an example.
struct FusedMatmul {
  MatmulProblem product;               // A * B; its D is ignored
  std::optional<MatrixLayout> second;  // C, of B's size and dtype
  // Chain over {batch, m, n}. Tensor 0 and, with a second product, tensor 1 are the sums: f32, only loaded, strides
  // ignored.
  ChainProgram chain;
  int product_count() const { return second ? 2 : 1; }
};

}  // namespace ridge::ops

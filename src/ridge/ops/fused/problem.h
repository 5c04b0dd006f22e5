// Products with what becomes of their sums, as a plain struct: plan/ lowers groups of statements to it.
#pragma once

#include <optional>

#include "ridge/ops/chain/problem.h"
#include "ridge/ops/product/problem.h"

namespace ridge::ops {

// Products in one kernel with what becomes of them: the sums of A * B, or of A * B and A * C side by side, go through a
// chain where they are made and never to memory. y = (x*up + bu) * gelu(x*gate + bg) is one such kernel.
struct FusedMatmul {
  MatmulProblem product;               // A * B; its D is not looked at
  std::optional<MatrixLayout> second;  // C, of B's size and dtype
  // Over {batch, m, n}. Tensors 0 and, where there is a second product, 1 are the sums: f32, only loaded, their strides
  // not looked at.
  ChainProgram chain;
  int products() const { return second ? 2 : 1; }
};

}  // namespace ridge::ops

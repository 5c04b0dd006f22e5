// Describes the gradients of attention (problem.h) with respect to q, k and v, from the gradient of its result:
//
//   dq = scale * dS k,  dk = scale * dS^T q,  dv = P^T do,  dS = P * (do v^T - delta),  delta = sum of do * o along a
//   row
//
// where P are the weights of the forward pass, recomputed from lse, each row's log of the sum of exponentials. Rows
// that see no key, and keys that no row sees, have zero gradients. Heads that share k and v add to the same dk and dv.
// Formats are those of the forward pass. Computation and sums are f32; Hopper rounds P and dS to the operands' format.
#pragma once

#include "ridge/ops/attention/problem.h"

namespace ridge::ops {

struct AttentionBackwardProblem {
  AttentionProblem forward;  // Type, sizes, scale, mask and layouts of q, k, v and o
  HeadsLayout dout = {}, dq = {}, dk = {}, dv = {};
  bool ordered = false;  // Adds to dq in a fixed order, so that runs agree bit by bit
  bool operator==(const AttentionBackwardProblem&) const = default;
};

// Pointers address the first element.
struct AttentionBackwardData {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *dout = nullptr;
  const float* lse = nullptr;  // [outer, heads, rows]
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

}  // namespace ridge::ops

// The gradients of attention (problem.h) with respect to q, k and v, from the gradient of its result:
//
//   dq = scale * dS k,  dk = scale * dS^T q,  dv = P^T do,  dS = P * (do v^T - delta),  delta = sum of do * o along a
//   row
//
// with P the weights of the forward pass, which lse, its log of the sum of exponentials of a row, gives back. A key or
// a row that no partner sees has gradients of zero. Heads that share k and v add to the same dk and dv. Formats as in
// the forward pass; everything is computed with and summed as f32, P and dS being rounded to the operands' format on
// Hopper.
#pragma once

#include "ridge/ops/attention/problem.h"

namespace ridge::ops {

struct AttentionBackwardProblem {
  AttentionProblem forward;  // dtype, sizes, scale, mask; where q, k, v and o lie
  HeadsLayout dout = {}, dq = {}, dk = {}, dv = {};
  bool ordered = false;  // sums of dq in the same order each time, so that runs agree bit by bit
  bool operator==(const AttentionBackwardProblem&) const = default;
};

// Data pointers are to the first element.
struct AttentionBackwardData {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *dout = nullptr;
  const float* lse = nullptr;  // [outer, heads, rows]
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

}  // namespace ridge::ops

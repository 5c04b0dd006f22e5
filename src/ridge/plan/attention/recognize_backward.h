// Recognises the gradients of attention: eight statements in any equivalent form,
//
//   s = q * k    p = softmax of s    dv = p * do    dp = do * v    delta = sum of p * dp along the keys
//   ds = p * (dp - delta)            dq = ds * k    dk = ds * q
//
// with the scale applied to ds or to dq and dk; delta may be the sum of do * o along the values. recognize_forward.h
// describes scores and softmax. The kernel recomputes the softmax, whose statements may belong to another kernel, too.
#pragma once

#include <optional>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/ops/attention/backward_problem.h"
#include "ridge/plan/fuse.h"
#include "ridge/plan/shape.h"
#include "ridge/program/tensor_uses.h"

namespace ridge {

struct FoundAttentionBackward {
  Reason fusion_blocker;                 // reason why there is no kernel
  std::vector<int> statements, softmax;  // sorted; those that compute the softmax are in `softmax` only
  ops::AttentionBackwardProblem problem = {};
  int q = -1, k = -1, v = -1, dout = -1, dq = -1, dk = -1, dv = -1;  // indices into Program::tensors
  int o = -1;                                                        // read by delta; -1 if it reads the softmax
};

// Returns nullopt if `statement`, a product, computes neither dq nor dk of anything that resembles attention.
// `uses` is of the same program.
std::optional<FoundAttentionBackward> find_attention_backward(const Program& program, const TensorUses& uses,
                                                              const std::vector<Shape>& shapes, int statement,
                                                              Target target);

}  // namespace ridge

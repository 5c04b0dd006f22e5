// Recognises the gradients of attention, which are eight statements however each is spelled:
//
//   s = q * k    p = softmax of s    dv = p * do    dp = do * v    delta = sum of p * dp along the keys
//   ds = p * (dp - delta)            dq = ds * k    dk = ds * q
//
// with the scale in ds or behind dq and dk; delta may be the sum of do * o along the values. Scores and softmax are as
// forward.h says. The kernel makes the softmax again, so these statements may be another kernel's as well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/ops/attention/backward_problem.h"
#include "ridge/plan/fuse.h"
#include "ridge/plan/shape.h"

namespace ridge {

struct FoundAttentionBackward {
  std::string fault;  // why the statements are none, or the device has no kernel for it; empty: it has
  std::vector<int> statements, softmax;  // sorted: without those that make the softmax, and these
  ops::AttentionBackwardProblem problem = {};
  int q = -1, k = -1, v = -1, dout = -1, dq = -1, dk = -1, dv = -1;  // of Program::tensors
  int o = -1;                                                        // that delta is made of; -1: of the softmax
};

// `statement`: a product. Nothing: it is neither dq nor dk of anything like it.
std::optional<FoundAttentionBackward> find_attention_backward(const Program& program, const std::vector<Shape>& shapes,
                                                              int statement, Target target);

}  // namespace ridge

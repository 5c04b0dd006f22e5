// Recognises attention in any equivalent form: o = p * v, where p is the softmax of scaled, optionally masked scores
// s = q * k. Scores may be multiplied and divided by numbers and sizes. The softmax may be written as e^(s - max s)
// over its sum. A mask, where(…, s, -inf) or an added where(…, 0, -inf), compares the index of a key with that of a
// row; or with a length of each sequence: index(T) < n, or index(T) <= index(S) + n - size(S); or it compares packed
// sequences: sequence(S) == sequence(T).
#pragma once

#include <optional>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/ops/attention/problem.h"
#include "ridge/plan/fuse.h"
#include "ridge/plan/shape.h"
#include "ridge/program/tensor_uses.h"

namespace ridge {

struct FoundAttention {
  Reason fusion_blocker;  // reason why there is no kernel for the statements
  ops::AttentionProblem problem = {};
  int q = 0, k = 0, v = 0, o = 0;  // indices into Program::tensors
  int lengths = -1;                // tensor of sequence lengths; -1 if all have the same
  int pages = -1;                  // tensor of page lists; -1 if keys and values are not paged
  // Lengths of packed sequences; empty if sequences are not packed.
  std::vector<std::int64_t> row_lengths = {}, key_lengths = {};
};

// Returns the statements and the gathers of their products' operands, in program order.
std::vector<int> add_page_gathers(const Program& program, std::vector<int> statements);

// `statements`, in program order: two contractions, one of them last; the statements that compute the weights of the
// last one; and optionally the gathers of paged keys and values.
FoundAttention find_attention(const Program& program, const std::vector<Shape>& shapes,
                              const std::vector<int>& statements, Target target);

// Recognises the gradients of attention: eight statements in any equivalent form,
//
//   s = q * k    p = softmax of s    dv = p * do    dp = do * v    delta = sum of p * dp along the keys
//   ds = p * (dp - delta)            dq = ds * k    dk = ds * q
//
// with the scale applied to ds or to dq and dk; delta may be the sum of do * o along the values. The kernel
// recomputes the softmax, whose statements may belong to another kernel, too.
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

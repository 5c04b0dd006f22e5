// Recognises attention in any equivalent form: o = p * v, where p is the softmax of scaled, optionally masked scores
// s = q * k. Scores may be multiplied and divided by numbers and sizes. The softmax may be written as e^(s - max s)
// over its sum. A mask, where(…, s, -inf) or an added where(…, 0, -inf), compares the index of a key with that of a
// row; or with a length of each sequence: index(T) < n, or index(T) <= index(S) + n - size(S); or it compares packed
// sequences: sequence(S) == sequence(T).
#pragma once

#include <vector>

#include "ridge/base/reason.h"
#include "ridge/ops/attention/problem.h"
#include "ridge/plan/fuse.h"
#include "ridge/plan/shape.h"

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

}  // namespace ridge

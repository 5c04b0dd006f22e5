// Recognises attention: o = p * v, where p is the softmax of scaled, perhaps masked scores s = q * k, however that is
// spelled. Scores may be multiplied and divided by numbers and sizes; a mask compares the index of a key with that of a
// row, by where(…, s, -inf) or by adding where(…, 0, -inf); the softmax may stand as e^(s - max s) over its sum. It may
// also compare with a length, a whole number of each sequence: index(T) < n, or index(T) <= index(S) + n - size(S).
#pragma once

#include <string>
#include <vector>

#include "ridge/ops/attention/problem.h"
#include "ridge/plan/fuse.h"
#include "ridge/plan/shape.h"

namespace ridge {

struct FoundAttention {
  std::string fault;  // why the statements are none, or the device has no kernel for it; empty: it has
  ops::AttentionProblem problem = {};
  int q = 0, k = 0, v = 0, o = 0;  // of Program::tensors
  int lengths = -1;                // likewise; -1: sequences are alike
};

// `statements`, in the program's order: two contractions, one of them last, with what makes the last one's weights.
FoundAttention find_attention(const Program& program, const std::vector<Shape>& shapes,
                              const std::vector<int>& statements, Target target);

}  // namespace ridge

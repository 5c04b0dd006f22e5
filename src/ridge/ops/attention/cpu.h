// Fused attention on this CPU: scores stay in a core's caches. Pointers address the first element and need no
// alignment; inputs must not overlap o. Formats are f32, bf16 and f16; computation is f32. If `multiplies_bf16_pairs`
// is true, weights are rounded to bf16 before they are multiplied by v, as on devices.
#pragma once

#include "ridge/ops/attention/model.h"
#include "ridge/ops/attention/problem.h"

namespace ridge::ops {

struct AttentionData {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;          // [outer, heads, rows]: log of each row's sum of exponentials; null if not needed
  const int* lengths = nullptr;  // [outer], if the problem has lengths, unless it has key_starts
  const int *row_starts = nullptr, *key_starts = nullptr;  // [outer + 1], if packed; key_starts only without pages
  const int* pages = nullptr;                              // [outer, keys / rows per page], if it has pages
};

// True if the CPU kernel for this type multiplies bf16 in pairs, with the instruction set now in use.
bool multiplies_bf16_pairs(DType dtype);

// The problem must be supported (model.h). `threads` is the number of threads; 0 means all cores of the process.
void attention(const AttentionProblem& problem, const AttentionData& data, int threads = 0);

// Computes the gradients. dq is summed in a fixed order of the keys for any number of threads, so results agree bit by
// bit. Keeps a workspace for the f32 sums of dq and two numbers per row of q.
void attention_backward(const AttentionBackwardProblem& problem, const AttentionBackwardData& data, int threads = 0);

}  // namespace ridge::ops

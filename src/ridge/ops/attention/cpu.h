// Attention on this CPU in one piece: scores stay in a core's caches. Data pointers are to the first element, at any
// address; inputs must not overlap o. Formats: f32, bf16, f16, all computed with in f32; where goes_in_pairs() says so,
// weights are rounded to bf16 before they are multiplied by v, as kernels of devices round them.
#pragma once

#include "ridge/ops/attention/backward_problem.h"
#include "ridge/ops/attention/model.h"

namespace ridge::ops {

struct AttentionData {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;          // [outer, heads, rows]: ln of the sum of a row's exponentials; null: not wanted
  const int* lengths = nullptr;  // [outer], of a problem that has lengths; packed without pages it has key_starts
  const int *row_starts = nullptr, *key_starts = nullptr;  // [outer + 1], of one that is packed; keys: without pages
  const int* pages = nullptr;                              // [outer, keys / rows of a page], of one that has pages
};

bool goes_in_pairs(DType dtype);  // on this CPU as its kernels run now

// The problem must not be refused (model.h). Threads: 0 means every core that the process may use, else so many.
void attention(const AttentionProblem& problem, const AttentionData& data, int threads = 0);

// Its gradients. dq's sums are added in an order of the keys however many threads there are, so any two runs agree bit
// by bit. Beside inputs and outputs it takes f32 sums of dq, one row of two numbers a row of q, and keeps them.
void attention_backward(const AttentionBackwardProblem& problem, const AttentionBackwardData& data, int threads = 0);

}  // namespace ridge::ops

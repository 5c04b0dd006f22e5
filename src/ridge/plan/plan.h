// Lowers a program with all its sizes known to what the kernels do. A contraction becomes one batched matmul: its
// dimensions fall into batch, M, N and K, and each group must lie in memory so that one stride walks it. An operand
// that does not, for instance w[K1, N, K2] with K = K1, K2, is copied into order first: slow but right, and said in the
// report. An expression becomes one chain, with kernels for rows and reductions where it runs along dimensions.
//   x: bf16[32, 4096], w: bf16[14336, 4096], y[B, F] = x * w:  m = 32, n = 14336, k = 4096, w walked with row stride 1
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ridge/ops/attention/backward_problem.h"
#include "ridge/ops/attention/problem.h"
#include "ridge/ops/fused/problem.h"
#include "ridge/ops/loops/problem.h"
#include "ridge/ops/routing/problem.h"
#include "ridge/ops/rows/problem.h"
#include "ridge/plan/fuse.h"
#include "ridge/program/program.h"

namespace ridge {

struct Buffer {
  DType dtype;
  std::int64_t elements = 0;
  bool counts = false;  // holds 0, 1, 2, … before the first step: index(T)
  std::vector<std::int64_t> lengths =
      {};  // or, 0 so often as the first says, then 1, …: sequence(T); int32: their sums
  std::int64_t bytes() const { return stored_bytes(dtype, elements); }
};

// One call of a kernel. `buffers` are indices into Plan::buffers: a, b, d of a matmul, and where groups begin of a
// grouped one; a, b, the second b (-1: none) of
// a fused one and its chain's tensors behind the sums; a chain's tensors, in order; x, weight (-1: none), y of a row
// function, and dy of its gradient; x, y of a reduction; the operands of strips (-1: scratch); a row program's tensors;
// q, k, v, o of attention, its log-sum-exp where another step reads it (-1: none does), and the lengths of its
// sequences where they differ, or -1 and where their rows and their keys begin, and lists of pages; q, k, v, o, do,
// log-sum-exp, dq, dk, dv of its gradients; the operands and the result of loops, and a buffer for sums; of routed rows
// what ops/routing/problem.h lists.
struct Step {
  int group = 0;  // of Fusion::groups
  std::variant<ops::MatmulProblem, ops::FusedMatmul, ops::ChainProgram, ops::RowProblem, ops::ReduceProblem,
               ops::Strips, ops::RowProgram, ops::AttentionProblem, ops::AttentionBackwardProblem, ops::ConvLoops,
               ops::IndexLoops, ops::RunningLoops, ops::TopLoops, ops::RoutedLoops, ops::ScanLoops, ops::QuantizeLoops,
               ops::ProductLoops, ops::RoutedRows>
      kernel;
  std::vector<int> buffers;
  std::string copy;  // not empty: the step only reorders or converts, and this says what: "w[F, D] to [D, F]"
};

struct Plan {
  Fusion fusion;
  std::vector<Buffer> buffers;  // first one for each of Program::tensors (empty: never stored), then the copies
  std::vector<Step> steps;      // in the order of the groups
  std::int64_t memory_bytes = 0;
};

// What a buffer that counts holds.
std::vector<float> counts_of(const Buffer& buffer);

// Errors: a dimension without a value, a dtype that the kernels do not compute in, a size past 2^63.
Result<Plan> plan(const Program& program, const Bindings& dims, const FuseOptions& options = {});

}  // namespace ridge

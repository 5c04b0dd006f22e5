// Lowers a program whose sizes are all known to kernel calls. A contraction becomes one batched matmul: its dimensions
// are divided into batch, M, N and K, and each group must be addressable with one stride. An operand that is not, for
// instance w[K1, N, K2] with K = K1, K2, is reordered by a copy first, which the report shows. An expression becomes
// one chain, with row and reduction kernels where functions run along dimensions.
//   x: bf16[32, 4096], w: bf16[14336, 4096], y[B, F] = x * w:  m = 32, n = 14336, k = 4096, w has row stride 1
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ridge/ops/attention/problem.h"
#include "ridge/ops/fused/problem.h"
#include "ridge/ops/loops/problem.h"
#include "ridge/ops/model.h"
#include "ridge/ops/product/windows/image_copy.h"
#include "ridge/ops/routing/problem.h"
#include "ridge/ops/rows/problem.h"
#include "ridge/plan/fuse.h"
#include "ridge/program/program.h"

namespace ridge {

struct PlanBuffer {
  DType dtype;
  std::int64_t elements = 0;
  bool holds_indices = false;  // true if the buffer holds 0, 1, 2, … before the first step: index(T)
  // Lengths of sequences. If given, an index buffer holds the sequence number of each element, sequence(T), or, as
  // int32, the start of each sequence.
  std::vector<std::int64_t> sequence_lengths = {};
  // Extent and stride of each axis of the tensor if its memory is not row-major. Only intermediates have another order.
  struct AxisInMemory {
    std::int64_t extent = 1, stride = 0;
  };
  std::vector<AxisInMemory> axes = {};
  std::int64_t size_bytes() const { return stored_bytes(dtype, elements); }
};

// One kernel call. `buffers` are indices into Plan::buffers, -1 if absent:
//   matmul: a, b, d, and of a grouped one the starts of groups; fused matmul: a, b, second b, the epilogue's tensors
//   chain, row program: the tensors in order; row function: x, weight, y, and of a gradient dy; reduction: x, y
//   row blocks: the operands (-1: scratch); loops: the operands, the result, on a CPU f32 sums of a scatter
//   attention: q, k, v, o, log-sum-exp, lengths, starts of rows, starts of keys, page list; trailing ones are optional
//   attention gradients: q, k, v, o, do, log-sum-exp, dq, dk, dv; routed rows: see ops/routing/problem.h
//   image copy: from, to
struct PlanStep {
  int group = 0;  // index into FusionPlan::groups
  std::variant<ops::MatmulProblem, ops::FusedMatmul, ops::ChainProgram, ops::RowProblem, ops::ReduceProblem,
               ops::RowBlockProgram, ops::RowProgram, ops::AttentionProblem, ops::AttentionBackwardProblem,
               ops::ConvLoops, ops::GatherScatterLoops, ops::RunningSumLoops, ops::TopKLoops, ops::PoolLoops,
               ops::FoldLoops, ops::RotaryLoops, ops::RoutedProductLoops, ops::RecurrenceLoops, ops::QuantizeLoops,
               ops::DequantizeLoops, ops::RoutingProblem, ops::ImageCopy>
      kernel;
  std::vector<int> buffers;
  std::string copy_description;  // description if the step only reorders or converts, "w[F, D] to [D, F]"; else empty
};

struct Plan {
  FusionPlan fusion;
  std::vector<PlanBuffer> buffers;  // one for each of Program::tensors (0 elements if never stored), then the copies
  std::vector<PlanStep> steps;      // in execution order, which is that of the groups
  std::int64_t memory_bytes = 0;
};

// Returns the contents of an index buffer; int32 values are returned as the bits of floats.
std::vector<float> index_values(const PlanBuffer& buffer);

// Returns the plan of a program. Errors: a dimension without a value, a dtype that the kernels do not compute in, a
// size above 2^63.
Result<Plan> make_plan(const Program& program, const Bindings& dims, const FuseOptions& options = {});
// Errors: a scatter that adds rows to an input, which no kernel does.
Status check_no_added_rows(const Program& program);

// Chooses on a device whether two products of one operand share a kernel with the gate that reads both, and whether a
// product or a convolution shares a kernel with its epilogue; and whether the rows of a routed product are sorted by
// expert. No rule decides which is faster: both plans are made, and the one with the shorter predicted time is used.

// Returns the predicted time of the plan's kernels in sequence, or nullopt if the device has no kernel for a step.
std::optional<double> predict_plan_seconds(const Plan& plan, const ops::DeviceNumbers& device);

// Like `make_plan`, with products and epilogues in separate kernels wherever that is predicted to be faster.
Result<Plan> plan_fastest_fusion(const Program& program, const Bindings& dims, const FuseOptions& options,
                                 const ops::DeviceNumbers& device);

// Returns the numbers of the groups that have members, each after the groups whose results it reads; of the groups that
// are ready the lowest number comes first. `successors` lists for each group those that read its results.
std::vector<int> order_groups(const std::vector<std::vector<int>>& members,
                              const std::vector<std::set<int>>& successors);

}  // namespace ridge

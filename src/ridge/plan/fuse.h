// Decides which statements share a kernel. A result that only statements of the same kernel read is never stored:
// y = (x*up + bu) * gelu(x*gate + bg) in three statements moves x, up, gate, bu, bg and y; one kernel per statement
// would also store and read both products. A kernel is one of
//   product     one contraction, or two that share an operand, and pointwise statements on their results
//   pointwise   any number of pointwise statements over one index space
//   rows        functions along dimensions and adjacent pointwise statements, some rows at a time
//   attention   a product of the softmax of another product (attention/recognize.h)
//   attention_backward   its three gradients (attention/recognize.h); the kernel recomputes the softmax
//               statements of the forward pass
//   loops       one statement that is a routine: a convolution, a gather
// Statements are taken in order; each joins the kernels of its operands where the union is still one of these.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ridge/plan/shape.h"

namespace ridge {

// CPU kernels also multiply int8 and fuse any pointwise statements into products; for CUDA see ops/fused/cuda.h.
enum class Target { cpu, cuda };

struct FuseOptions {
  Target target = Target::cpu;
  bool fuse = true;                      // false gives each statement its own kernel
  std::vector<int> stored_tensors = {};  // tensors that must be stored, whichever kernels read them
  bool fuse_epilogues = true;            // false if products run in a library without fused epilogues
  bool library_attention = false;        // true if that library has an attention forward kernel
  // Products in separate kernels because that is faster, with the reason: products that share no kernel with another
  // product, and products and convolutions that share no kernel with pointwise statements.
  std::map<int, std::string> unpaired_products = {}, products_without_epilogue = {};
  // Routed products whose rows each read the weights of their expert, in place of a sort by expert and a grouped
  // product
  std::set<int> unsorted_routing = {};
  bool generate_kernels = true;  // true if CUDA kernels can be compiled for the program at run time
};

struct FusionGroup {
  enum class GroupKind { product, pointwise, rows, attention, attention_backward, loops } kind = GroupKind::pointwise;
  std::vector<int> statements;             // sorted, which is program order
  std::vector<int> recomputed = {};        // statements of other kernels that this kernel computes again
  std::vector<int> internal_tensors = {};  // tensors that are never stored
  std::vector<int> results = {};           // tensors that the kernel stores
  // Bytes moved with one kernel per statement, bytes moved as one kernel, and bytes of tensors live while it runs.
  std::int64_t bytes_before = 0, bytes_after = 0, live_bytes = 0;
};
inline std::string_view name(FusionGroup::GroupKind kind) {
  switch (kind) {
    case FusionGroup::GroupKind::product: return "product";
    case FusionGroup::GroupKind::pointwise: return "pointwise";
    case FusionGroup::GroupKind::rows: return "rows";
    case FusionGroup::GroupKind::attention: return "attention";
    case FusionGroup::GroupKind::attention_backward: return "attention_backward";
    case FusionGroup::GroupKind::loops: return "loops";
  }
  return "";
}
// Returns the kernel's own and recomputed statements, in program order.
std::vector<int> statements_with_recomputed(const FusionGroup& group);

// A statement that reads the result of a statement in another kernel.
struct FusionBoundary {
  int producer = 0, consumer = 0;  // indices into Program::statements
  std::string reason;              // reason why the two do not share a kernel
};

struct FusionPlan {
  Target target = Target::cpu;
  std::set<int> unsorted_routing = {};     // Routed products whose rows are not sorted by expert
  bool full_row_kernels = true;            // false if functions along dimensions take one step each
  std::vector<FusionGroup> groups;         // in execution order
  std::vector<FusionBoundary> boundaries;  // ordered by `consumer`
  // Peak bytes of live tensors with one kernel per statement and after fusion. Inputs and outputs are live to the end.
  std::int64_t live_bytes_before = 0, live_bytes_after = 0;
};

// `shapes` has one entry for each of Program::tensors, with all sizes known.
FusionPlan fuse_statements(const Program& program, const std::vector<Shape>& shapes, const FuseOptions& options = {});

}  // namespace ridge

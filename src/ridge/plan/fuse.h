// Which statements share a kernel. What one statement makes and only statements of its own kernel read is never stored:
// y = (x*up + bu) * gelu(x*gate + bg) in three statements moves x, up, gate, bu, bg and y, where one kernel a statement
// stores and reads both products as well. A kernel is one of
//   product     one contraction, or two that share an operand, and pointwise statements on their sums
//   pointwise   any number of pointwise statements over one index space
//   rows        functions along dimensions with their pointwise neighbours, some rows at a time
//   attention   a product of the softmax of another product (attention/forward.h)
//   attention_backward   its three gradients (attention/backward.h), which make the softmax again: statements that the
//               kernel of the forward pass has, too
//   loops       one statement that is a word of its own: a convolution, a gather
// Statements are taken in order; each joins the kernels of its operands where the two together are still one of these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/plan/shape.h"

namespace ridge {

// Whose kernels: those of a CPU also multiply int8 and end products in any pointwise statements, a device's as
// ops/fused/cuda.h says.
enum class Target { cpu, cuda };

struct FuseOptions {
  Target target = Target::cpu;
  bool fuse = true;              // false: one kernel a statement
  std::vector<int> stored = {};  // tensors that are wanted in memory whoever reads them
  bool epilogues = true;         // false: a device's products are another library's and end in nothing
  bool attention = false;        // where epilogues is false: that library has a kernel of attention's forward pass
  std::vector<int> apart = {};   // products that share a kernel with no other product: by their times, they are faster
  bool generate = true;          // on a CUDA device, kernels may be made for the program (there is a compiler)
};

struct Group {
  enum class Kind { product, pointwise, rows, attention, attention_backward, loops } kind = Kind::pointwise;
  std::vector<int> statements;    // in the program's order
  std::vector<int> again = {};    // those of other kernels whose results it makes again, for itself
  std::vector<int> inside = {};   // tensors that never lie in memory
  std::vector<int> results = {};  // tensors that it stores
  // B: each statement's operands read and its result written; as one kernel; of what holds memory while it runs.
  std::int64_t bytes_before = 0, bytes_after = 0, alive_bytes = 0;
};
std::string_view name(Group::Kind kind);
std::vector<int> all_statements(const Group& group);  // its own and those that it makes again, in the program's order

struct Seam {  // two statements, one of which reads what the other one makes, that do not share a kernel
  int from = 0, to = 0;
  std::string why;
};

struct Fusion {
  Target target = Target::cpu;
  bool whole = true;          // false: functions along dimensions take as many steps as there are
  std::vector<Group> groups;  // in the order in which they run
  std::vector<Seam> seams;    // in the order of `to`
  // The most bytes that hold tensors at once: one kernel a statement, and so. Inputs and outputs stay to the end.
  std::int64_t alive_before = 0, alive_after = 0;
};

// `shapes`: of Program::tensors, all sizes known.
Fusion fuse(const Program& program, const std::vector<Shape>& shapes, const FuseOptions& options = {});

}  // namespace ridge

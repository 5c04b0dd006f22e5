// The lowerings, and the plan that they add to. Internal to plan/.
#pragma once

#include <array>
#include <functional>
#include <map>

#include "ridge/plan/plan.h"
#include "ridge/plan/shape.h"

namespace ridge {

// One end of a copy or of a chain: a buffer, walked by `shape`.
struct View {
  int buffer = 0;
  DType dtype = DType::f32;
  Shape shape = {};
};

struct Lowering {
  const Program& program;
  const Bindings& dims;       // the extents that are walked: all of a dimension, or a strip of it
  const Bindings& sizes;      // what size(T) is
  std::vector<View> tensors;  // of Program::tensors
  Plan plan;
  std::map<int, Axis> counted = {};  // buffers that hold 0, 1, 2, … along an axis

  int add_buffer(DType dtype, std::int64_t elements);
  const std::string& tensor_name(int tensor) const { return program.tensors[static_cast<std::size_t>(tensor)].name; }
  const View& view(int tensor) const { return tensors[static_cast<std::size_t>(tensor)]; }
  const Shape& shape_of(int tensor) const { return view(tensor).shape; }
  DType dtype_of(int tensor) const { return view(tensor).dtype; }
  const Statement& statement(int i) const { return program.statements[static_cast<std::size_t>(i)]; }
};

void lower(Lowering& to, int group, const Contraction& contraction);
void lower(Lowering& to, int group, const Expression& expression);
void lower_pointwise(Lowering& to, int group);           // of Fusion::groups, of that kind
void lower_products(Lowering& to, int group);            // likewise
void lower_rows(Lowering& to, int group);                // likewise
void lower_attention(Lowering& to, int group);           // likewise
void lower_attention_backward(Lowering& to, int group);  // likewise
void lower_loops(Lowering& to, int group);               // likewise

// Dimensions along which all of these statements can be cut into strips, outermost first: each has a part of every
// tensor that they make, and nothing runs along it.
std::vector<std::string> cut_dimensions(const Program& program, const std::vector<int>& statements);

// A step that writes `to` from `from`, element by element: reorders, converts.
Step copy_step(int group, const View& from, const View& to, std::string what);

// 0, 1, 2, … along an axis, or the sequence of each place, in a buffer of its own. `place`: of kind index or sequence.
View counting(Lowering& to, const Node& place);

// Where tensors and indices among nodes lie.
std::vector<std::optional<View>> leaves(Lowering& to, const std::vector<Node>& nodes);

// A chain's tensor over an index space.
ops::ChainTensor chain_tensor(const View& view, const Shape& space);

// Pointwise statements as the nodes of one: what one of them makes and another reads is a node, no tensor.
struct Pointwise {
  std::vector<Node> nodes;
  struct Stored {
    std::size_t node;
    int tensor;
  };
  std::vector<Stored> results;
};
// `stored`: tensors that are wanted in memory; a product's sums, too, are a tensor to the others and may be, or, with
// `sums_along`, are nodes as any sum.
Pointwise joined(const Program& program, const std::vector<int>& statements, const std::vector<int>& stored,
                 bool sums_along = false);

// A node that is neither a leaf nor along dimensions, on the registers of its arguments.
ops::ChainStep chain_step(const Node& node, const Bindings& sizes, const std::function<int(int)>& register_of);

bool fits_device(const Pointwise& chain);  // within what the chains of a CUDA device hold

// Nodes `members` as a chain over `space`.
struct ChainLeaves {
  const std::vector<std::optional<View>>& views;  // where each node lies; nothing: it is computed
  const std::vector<View>& first;                 // the chain's first tensors, whatever reads them
  const Shape& space;
  const Bindings& dims;
};
struct ChainResult {
  std::size_t node = 0;
  View to;
};
struct LoweredChain {
  ops::ChainProgram program;
  std::vector<int> buffers;  // of its tensors
};
LoweredChain lower_chain(const std::vector<Node>& nodes, const std::vector<std::size_t>& members,
                         const std::vector<ChainResult>& results, const ChainLeaves& leaves);

// Nodes with functions along one set of dimensions as a program over whole rows. Where there is none `fault` says why.
struct RowLeaves {
  const std::vector<std::optional<View>>& views;  // where each node lies; nothing: it is computed
  const Bindings& sizes;
  Target target = Target::cuda;           // whose limits count
  std::vector<std::string> columns = {};  // where no function says them
};
// As if each tensor were a buffer of its own; its views and sizes are RowLeaves'.
struct TriedLeaves {
  std::vector<std::optional<View>> views;
  Bindings sizes;
};
TriedLeaves tried_leaves(const Program& program, const std::vector<Shape>& shapes, const std::vector<Node>& nodes);
struct LoweredRows {
  ops::RowProgram program;
  std::vector<int> buffers;  // of its tensors
  std::string fault;
};
LoweredRows lower_whole_rows(const std::vector<Node>& nodes, const std::vector<ChainResult>& results,
                             const RowLeaves& leaves);
LoweredRows whole_rows(Lowering& to, int group);  // of Fusion::groups
std::int64_t longest(const std::vector<Shape>& shapes, const std::string& dim);

// A sum across rows of what a norm leaves, however it is spelled (across.cc).
struct FoundAcross {
  std::vector<int> statements;  // sorted; the last one is the sum
  ops::RowProblem problem;
  int x = -1, dy = -1, y = -1;  // of Program::tensors
};
// `statement`: a sum. Nothing: it is none of these, or the target has no kernel for it.
std::optional<FoundAcross> find_across(const Program& program, const std::vector<Shape>& shapes, int statement,
                                       Target target);

// The dimensions of a product.
struct Groups {
  std::vector<std::string> batch, m, n, k;
};
// Of one product, or of two that share their left operand once both are turned so; nothing: they share none, or their
// dimensions or dtypes differ. `statements`: contractions.
std::optional<Groups> product_groups(const Program& program, const std::vector<Shape>& shapes,
                                     const std::vector<int>& statements);
// The one kernel that a group of one or two products becomes, with its layouts; the copies of operands that it may need
// are left out. All must be as fuse.cc asks of a group. Every size(…) must be of a dimension of `shapes`.
ops::FusedMatmul fused_product(const Program& program, const std::vector<Shape>& shapes, const Group& group);
// Strides along batch, m and n; nothing where one stride cannot say it.
std::optional<std::array<std::int64_t, 3>> regrouped(const Shape& shape, const Groups& groups);

}  // namespace ridge

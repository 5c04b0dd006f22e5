// The lowering functions, which append steps to a plan. Internal to plan/.
#pragma once

#include <array>
#include <functional>
#include <map>

#include "ridge/base/reason.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/shape.h"

namespace ridge {

// A buffer with the shape and strides by which a step reads or writes it.
struct View {
  int buffer = 0;
  DType dtype = DType::f32;
  Shape shape = {};
};

struct Lowering {
  const Program& program;
  const Bindings& dims;       // extents to compute: the full dimension, or one row block of it
  const Bindings& sizes;      // values of size(T)
  std::vector<View> tensors;  // one view for each of Program::tensors
  Plan plan;
  std::vector<std::size_t> channel_axes = {};  // axis of each tensor that is last in its memory, or 0 for the usual one
  std::map<int, View> row_major_views = {};    // views of inputs and outputs that have a copy with channels last
  std::map<int, Axis> index_buffers = {};      // buffers that hold 0, 1, 2, … along an axis, or sequence numbers

  int add_buffer(DType dtype, std::int64_t elements);
  const std::string& tensor_name(int tensor) const { return program.tensors[tensor].name; }
  const View& view_of(int tensor) const { return tensors[tensor]; }
  const Shape& shape_of(int tensor) const { return view_of(tensor).shape; }
  DType dtype_of(int tensor) const { return view_of(tensor).dtype; }
  const Statement& statement_at(int i) const { return program.statements[i]; }
};

// One operand may be block-scaled if `can_multiply_scaled` is true of it.
void lower_contraction(Lowering& to, int group, const Contraction& contraction);
// True if a product reads its operand `tensor`, which is block-scaled, as it is stored: on a CPU, if its blocks are
// along k and the other operand is not larger; on a device, if the other operand has few rows of bf16.
bool can_multiply_scaled(const Lowering& to, const Contraction& product, int tensor);
// True if the device multiplies both operands, of e4m3_128, as they are stored.
bool can_multiply_scaled_pair(const Lowering& to, const Contraction& product);
// Returns the dtype to which a product of these operands, one or both of them block-scaled, converts them.
DType dequantized_dtype(Target target, DType a, DType b);
void lower_expression(Lowering& to, int group, const Expression& expression);
// Each lowers one entry of FusionPlan::groups, which must be of the named kind.
void lower_pointwise(Lowering& to, int group);
void lower_products(Lowering& to, int group);
void lower_rows(Lowering& to, int group);
void lower_attention(Lowering& to, int group);
void lower_attention_backward(Lowering& to, int group);
void lower_loops(Lowering& to, int group);

// Returns the dimensions, outermost first, along which the statements can be split into row blocks: every result has
// the dimension, and no function runs along it.
std::vector<std::string> row_block_dimensions(const Program& program, const std::vector<int>& statements);

// Returns a step that copies `from` to `to` element by element, with a change of order or dtype.
PlanStep make_copy_step(int group, const View& from, const View& to, std::string description);
// Adds a step that copies a tensor of any dtype in memory to another order, or to f32, bf16 or f16.
void add_copy(Lowering& to, int group, const View& from, const View& copy, std::string description);

// Returns a view of a new or existing buffer with 0, 1, 2, … along the axis of an index node, or with the sequence
// number of each element for a sequence node.
View make_index_view(Lowering& to, const Node& node);

// Returns the view of each node that is a tensor, an index or a sequence; nullopt for the others.
std::vector<std::optional<View>> find_leaf_views(Lowering& to, const std::vector<Node>& nodes);

// Returns the strides of a view along the axes of an index space, 0 where the view lacks an axis.
ops::ChainTensor make_chain_tensor(const View& view, const Shape& space);

// Several statements as one list of nodes: a result of one statement that another reads is a node instead of a tensor.
struct JoinedNodes {
  std::vector<Node> nodes;
  struct StoredNode {
    std::size_t node;
    int tensor;
  };
  std::vector<StoredNode> results;
};
// `stored` lists the tensors to write to memory. A product's result is a tensor node for the other statements; with
// `sums_along` the product itself becomes nodes, like any other sum.
JoinedNodes join_statements(const Program& program, const std::vector<int>& statements, const std::vector<int>& stored,
                            bool sums_along = false);

// Returns the chain step of a constant or call node; `register_of` maps argument nodes to registers.
ops::ChainStep make_chain_step(const Node& node, const Bindings& sizes, const std::function<int(int)>& register_of);

bool fits_device_chain(const JoinedNodes& chain);  // true if the chain is within the limits of CUDA chain kernels

struct ChainInputs {
  const std::vector<std::optional<View>>& views;  // view of each node; nullopt if the chain computes it
  const std::vector<View>& leading_tensors;       // tensors that come first in the chain's list, in this order
  const Shape& space;
  const Bindings& dims;
};
struct ChainResult {
  std::size_t node = 0;
  View destination;
};
struct LoweredChain {
  ops::ChainProgram program;
  std::vector<int> buffers;  // buffer of each of the chain's tensors
};
// Returns the nodes `members` as a chain over the index space of `inputs`.
LoweredChain lower_chain(const std::vector<Node>& nodes, const std::vector<std::size_t>& members,
                         const std::vector<ChainResult>& results, const ChainInputs& inputs);

struct RowKernelInputs {
  const std::vector<std::optional<View>>& views;  // view of each node; nullopt if the kernel computes it
  const Bindings& sizes;
  Target target = Target::cuda;           // target whose limits apply
  std::vector<std::string> columns = {};  // column dimensions, for nodes without a function along dimensions
};
// Views and sizes for a trial lowering before buffers exist: each tensor counts as a buffer of its own.
struct TrialRowKernelInputs {
  std::vector<std::optional<View>> views;
  Bindings sizes;
};
TrialRowKernelInputs make_trial_row_kernel_inputs(const Program& program, const std::vector<Shape>& shapes,
                                                  const std::vector<Node>& nodes);
struct LoweredRows {
  ops::RowProgram program;
  std::vector<int> buffers;  // buffer of each of the program's tensors
  Reason fusion_blocker;     // reason why there is no such program
};
// Lowers nodes whose functions all run along one set of dimensions to a kernel that holds full rows.
LoweredRows lower_full_rows(const std::vector<Node>& nodes, const std::vector<ChainResult>& results,
                            const RowKernelInputs& inputs);
LoweredRows lower_group_as_full_rows(Lowering& to, int group);
// Returns the largest extent that any of the shapes has along a dimension.
std::int64_t longest_extent(const std::vector<Shape>& shapes, const std::string& dim);

// A sum across rows of normalised values (sum_across_rows.cc).
struct SumAcrossRows {
  std::vector<int> statements;  // sorted; the last statement is the sum
  ops::RowProblem problem;
  int x = -1, dy = -1, y = -1;  // indices into Program::tensors
};
// Returns nullopt if `statement` is not such a sum or the target has no kernel for it.
std::optional<SumAcrossRows> find_sum_across_rows(const Program& program, const std::vector<Shape>& shapes,
                                                  int statement, Target target);

// Dimensions of a product by role.
struct ProductDims {
  std::vector<std::string> batch, m, n, k;
};
// Returns the dimensions of one or two contractions; nullopt if two share no operand or differ in dimensions or dtypes.
std::optional<ProductDims> find_product_dims(const Program& program, const std::vector<Shape>& shapes,
                                             const std::vector<int>& statements);
// Returns the fused kernel of a group of one or two products, without the copies of operands that it may need. The
// group must satisfy the conditions of fuse.cc, and `shapes` must have every dimension of a size(…).
ops::FusedMatmul make_fused_matmul(const Program& program, const std::vector<Shape>& shapes, const FusionGroup& group);
// The tensors that one or two products of a kernel sum, and their dimensions by role.
struct ProductSums {
  ProductDims dims;
  std::vector<int> tensors;
};
// Adds the kernel of a group's products with its pointwise statements as their epilogue. `operands` are the buffers of
// a, b and the second b, or -1.
void add_fused_product(Lowering& to, int group, ops::FusedMatmul product, std::vector<int> operands,
                       const ProductSums& sums);

// Returns the statement's convolution, or nullptr.
const Expression* convolution_of(const Statement& statement);

// True if the elements are contiguous, with the last axis innermost.
bool is_dense(const Shape& shape);

// Returns the shape of a convolution's input, weights or result with its channels in second place.
Shape channels_first(Shape shape, const Routine& conv);
// Returns a convolution of these shapes, with channels in second place, without dtypes, as direct sums.
ops::ConvLoops make_direct_convolution(const Shape& x, const Shape& w, const Shape& y, const Routine& routine);
// Returns why a convolution does not run as a product of its weights and its windows.
Reason convolution_blocker(const Program& program, const std::vector<Shape>& shapes, const Expression& conv);
// Returns the dimensions of a convolution's result by role in that product.
ProductDims convolution_dims(const Shape& result, const Routine& conv);
// Returns the buffer of a tensor in memory order; a step converts the tensor if it has another dtype.
int convert_tensor(Lowering& to, int group, int tensor, DType dtype);
// Returns the buffer of an operand of a convolution with its channels in second place; a step converts the operand if
// it has another order or dtype.
int convert_conv_operand(Lowering& to, int group, int tensor, const Routine& conv, DType dtype);
// Returns a buffer for a convolution's result with its channels in second place. `copy_conv_result` adds the step that
// copies it to the tensor, unless it is the tensor's own buffer.
int add_conv_result(Lowering& to, int tensor, const Routine& conv);
void copy_conv_result(Lowering& to, int group, int tensor, const Routine& conv, int buffer);
// Lowers a group with a convolution to a product. Returns false if the group has none.
bool lower_convolution(Lowering& to, int group);

// Lowers a transposed convolution to a product and a fold (lower_transposed_convolution.cc).
void lower_transposed_convolution(Lowering& to, int group, const Expression& e);
// Errors: a transposed convolution's products take more than 2^62 bytes.
Status check_transposed_columns(const Program& program, const std::vector<Shape>& shapes);

// Convolutions on a device (channels_last.cc). Returns why a convolution is not a product of pixels and weights there.
Reason device_convolution_blocker(const Program& program, const std::vector<Shape>& shapes, const Expression& conv);
// Gives the tensors of convolutions the strides of memory with channels last. Returns for each tensor the axis of the
// channels, or 0 if its strides have not changed.
std::vector<std::size_t> order_channels_last(const Program& program, std::vector<Shape>& shapes, Target target);
// Enlarges the buffer of a tensor with channels last to aligned pixels, or adds one if the tensor's own buffer is
// visible outside of the plan and therefore row-major.
void add_channels_last_buffer(Lowering& to, int tensor, bool is_visible);
// Adds the copies of the inputs that a group is the first to read, and of the outputs that it writes.
void copy_inputs_to_channels_last(Lowering& to, int group);
void copy_results_from_channels_last(Lowering& to, int group);
// Returns the dimensions of a result by role: pixels are rows, channels are columns.
ProductDims channels_last_dims(const Shape& result, const Routine& conv);
void lower_device_convolution(Lowering& to, int group, const Expression& conv);

// Returns the strides along batch, m and n, or nullopt if one of them needs more than one stride.
std::optional<std::array<std::int64_t, 3>> product_strides(const Shape& shape, const ProductDims& dims);

}  // namespace ridge

// Parsed programs: dimensions, tensors, and statements in order. `parse`() returns only valid programs: all names are
// known, dimensions of contractions match, no tensor is written twice or read before it is written.
//
//   dims N = 32768, D = 8192, F = 4*D
//   x: bf16[N, D]   up: bf16[F, D]
//   u[N, F] = x * up                     a Contraction, contracted over D
//   y: bf16[N, F] = gelu(u)              an Expression
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/error.h"
#include "ridge/base/function.h"
#include "ridge/base/result.h"
#include "ridge/symbol/polynomial.h"

namespace ridge {

// Axis of a tensor: a named dimension or a literal size (bf16[1]). Axes of a statement are matched with ==: by name,
// literals above 1 by value (8192 in both operands of bf16[8, 8192] * bf16[8192, 64] -> bf16[8, 64] is one dimension).
// A literal 1 matches nothing and needs no match. If a literal above 1 occurs several times in a tensor, the axes are
// numbered in order (`repetition`), and each matches the one with its number in another tensor. An axis D_XY is
// sharded: each device holds one of X*Y shards of at most ceil(D/(X*Y)) elements.
struct Axis {
  std::string dim;           // "" for a literal
  std::int64_t literal = 0;  // at least 1 if `dim` is ""
  std::string mesh = {};     // mesh axes that it is split over, outermost first: "XY"; "" if replicated
  TextSpan span = {};
  int repetition = 0;  // number of earlier axes of the tensor with the same literal above 1
  bool is_named() const { return !dim.empty(); }
  Polynomial extent() const { return is_named() ? Polynomial::make_symbol(dim) : Polynomial(literal); }
  // Returns the size, or nullopt if the dimension has no value.
  std::optional<std::int64_t> size(const Bindings& sizes) const;
  bool has_same_size(const Axis& o) const { return dim == o.dim && literal == o.literal; }
  bool operator==(const Axis& o) const { return has_same_size(o) && repetition == o.repetition; }  // ignores mesh axes
};
bool has_dim(const std::vector<Axis>& axes, const std::string& dim);

struct Dimension {
  std::string name;
  std::optional<Polynomial> value;  // default, a formula of other dimensions (F = 4*D)
  TextSpan span = {};
  // Lengths of the packed sequences of a ragged dimension, dims S = (700, 200, 124). Its value is their sum.
  std::vector<std::int64_t> lengths = {};
};

// Axis of the device mesh, named by a capital letter.
struct MeshAxis {
  std::string name;
  std::optional<std::int64_t> size;  // default; without one, -d must give it
  TextSpan span = {};
};

enum class TensorRole {
  input,
  intermediate,
  output
};  // output: written and never read, or written with an explicit dtype

// Content of an input. In a model of several layers each layer has its own parameters, caches and state; activations
// are handed from layer to layer (program/weights.h).
enum class InputUse { activation, parameter, cache, state };
std::string_view input_use_word(InputUse use);  // "data", "param", "cache", "state": the word before a declaration

struct Tensor {
  std::string name;
  DType dtype;               // dtype; for an undeclared intermediate, its widest operand's
  bool declared = false;     // true for inputs, and for results with an explicit dtype
  std::vector<Axis> axes;    // row-major, the last one contiguous
  std::string partial = {};  // "X" in {U_X}: devices along X hold partial sums
  TensorRole role = TensorRole::input;
  TextSpan span = {};
  std::optional<InputUse> declared_use = {};  // word before the declaration of an input
  int replaced = -1;  // input whose memory the result takes over: m2: f32[P] replaces m = …; -1 if none
};

// Input that concatenates tensors along the first axis, as PyTorch's chunk splits them: w: bf16[2*F, D] has the parts
// up[F, D] = w[0:F] and gate[F, D] = w[F:2*F]. Statements read the parts, which are ordinary inputs. The stacked input
// is no tensor of its own; it describes the layout of its parts in a file and in memory.
struct StackedInput {
  std::string name;
  DType dtype;                     // dtype of all parts
  Polynomial rows;                 // size of the first axis, 2*F
  std::vector<Axis> other_axes{};  // other axes, the same for all parts
  std::vector<int> parts{};        // indices into Program::tensors
  TextSpan span = {};
  std::optional<InputUse> declared_use = {};
};

// result[…] = left * right, summed over the dimensions that are not in the result. `result`, `left` and `right` are
// indices into Program::tensors; left and right may be equal. The four lists hold named dimensions, ordered as in the
// left, then the right operand. Literal sizes above 1 are in the result's axes, or in literal_contracted if summed.
// FLOPs: 2 * result elements * contracted * literal_contracted, or 1 per element without a sum.
struct Contraction {
  int result = 0, left = 0, right = 0;
  std::vector<std::string> batch;       // in both operands and in the result
  std::vector<std::string> left_free;   // in the left operand and in the result (the M of a matmul)
  std::vector<std::string> right_free;  // in the right operand and in the result (N)
  std::vector<std::string>
      contracted;  // in both operands, not in the result (K); {} for an outer or elementwise product
  std::int64_t literal_contracted = 1;  // product of the literal sizes that are summed
  std::string partial = {};             // mesh axes of contracted dimensions: each device has a partial sum
  // Grouped-query operand: with dims G = H/8, it has G where the others have H, and each element along G is used for
  // `group_size` consecutive elements along H. The lists above contain H.
  struct GroupedOperand {
    int tensor = 0;
    std::string dim, group;  // "H", "G"
    std::int64_t group_size = 1;
    bool operator==(const GroupedOperand&) const = default;
  };
  std::optional<GroupedOperand> grouped = {};
};

struct Routine;

// Node of an expression in postfix order: its arguments are earlier nodes.
struct Node {
  enum class Kind {
    tensor,
    number,
    index,       // index(T): index of the element along a dimension, from 0
    size,        // size(T): size of a dimension
    sequence,    // sequence(S): index of the element's sequence in a ragged dimension, from 0
    call,        // elementwise function
    along_dims,  // function over dimensions: sum(x over D), softmax(x over D)
    previous,    // body of a scan: result of the previous step, 0 before the first
    routine,     // last node of a routine (program/routine.h)
  } kind;
  int tensor = 0;                // kind tensor: index into Program::tensors; axes match the result's by name
  double number = 0;             // kind number
  Function function = {};        // kinds call and along_dims
  std::vector<int> arguments{};  // kinds call, along_dims, routine: indices of nodes
  int repeat = 1;                // kind call: number of applications of a unary function (repeat(64, cos, x))
  std::vector<Axis> over{};      // dimensions; one of them for the kinds index, size and sequence
};

// True for index(T) and sequence(T), which depend on the position along a dimension.
inline bool is_position(const Node& node) {
  return node.kind == Node::Kind::index || node.kind == Node::Kind::sequence;
}

// True for functions whose result lacks the dimensions: sum, mean, max, min. softmax and the norms keep them:
//   softmax(x)_i = exp(x_i - m) / sum_j exp(x_j - m), m = max_j x_j
//   rmsnorm(x)_i = x_i / sqrt(mean_j x_j^2 + 1e-5)
//   layernorm(x) = rmsnorm(x - mean x)
bool is_reducing_function(Function function);
inline constexpr double norm_epsilon = 1e-5;

// Expression. Except for literal 1s, each operand axis is in the result or reduced, and each result axis is in an
// operand.
struct Expression {
  int result = 0;
  std::vector<Node> nodes;                   // postfix; the last node is the result
  std::shared_ptr<const Routine> routine{};  // arguments, if the last node is a routine
};

// Index spaces of an expression's nodes. A node is evaluated in the space of the enclosing function over dimensions, or
// of the result. In y[N, D] = x / sum(x * x over D) the product is evaluated in space 1, [N, D], and the quotient in
// space 0, the result's.
struct IndexSpaces {
  std::vector<int> space_of_node;       // index into `axes` for each node
  std::vector<std::vector<Axis>> axes;  // axes of each space's operands without literal 1s; space 0 is the result's
};
IndexSpaces find_index_spaces(const std::vector<Tensor>& tensors, const std::vector<Node>& nodes);

struct Statement {
  std::variant<Contraction, Expression> op;
  std::string text;  // source text
  TextSpan span = {};
  int result() const {
    return std::visit([](const auto& o) { return o.result; }, op);
  }
};

// True if the axis is the group dimension of a grouped operand.
bool is_grouped_axis(const Contraction& product, int tensor, const Axis& axis);

// Returns the tensors that a statement reads, in order, with repetitions.
std::vector<int> statement_operands(const Statement& statement);

struct Program {
  std::string source;  // "program" or the file's path, for messages
  std::string text;
  std::vector<Dimension> dims;  // in order of first appearance; declared ones of a dims line first
  std::vector<MeshAxis> mesh;   // in order of first appearance; {} if nothing is sharded
  std::vector<Tensor> tensors;
  std::vector<Statement> statements;
  std::vector<StackedInput> stacks;
  std::vector<std::string> remarks = {};  // notes on choices: the order of a chain of products

  std::vector<std::string> dim_names() const;
  // Returns the given values and the defaults of all dimensions and mesh axes. Those without a value are omitted;
  // `evaluate`() names them. Errors: unknown name, value below 1, inconsistent sizes.
  Result<Bindings> bind_sizes(const Bindings& given) const;
};

inline constexpr std::size_t max_program_bytes = std::size_t{64} << 20;  // size of the source text
inline constexpr std::size_t max_tokens = 1 << 20;                       // larger programs take more than 1 s to parse
inline constexpr std::size_t max_statements = 10'000;  // more take longer than 1 s to analyse and print

struct ParseOptions {
  std::string source = "program";
  DType dtype = DType::bf16;  // default dtype of tensors
  Bindings sizes = {};        // sizes for ordering chains of products; override the program's; may hold other names
};

// Returns the sequence lengths of a dimension or of the one that it equals (T = S); {} if it is not ragged.
const std::vector<std::int64_t>& lengths_along(const Program& program, const std::string& dim);

// Returns the stacked input that contains the tensor, or nullptr.
const StackedInput* stack_of(const Program& program, int tensor);

// Errors: the program is sharded, and `verb` supports one device.
Status require_unsharded(const Program& program, std::string_view verb);

// Collectives that a statement implies: the mesh axes of each, "" if there is none.
struct Collectives {
  std::string all_reduce, reduce_scatter, all_gather, all_to_all;
};
Collectives implied_collectives(const Program& program, const Statement& statement);
std::string format_collectives(const Collectives& collectives);  // "all-reduce over X" or ""

// Parses the notation of docs/notation.md. Returns the first error with its position and a hint.
Result<Program> parse(std::string_view text, const ParseOptions& options = {});

// Returns the program in canonical form; parsing and printing it again gives the same text.
std::string print_program(const Program& program);
// Returns the text of a node with its arguments.
std::string print_subexpression(const Program& program, const Expression& expression, std::size_t node);

}  // namespace ridge

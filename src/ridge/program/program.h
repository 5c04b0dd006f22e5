// What the notation denotes: dimensions, tensors, and statements in order. A Program that parse() returned is verified:
// every name is known, every contraction has its dimensions in place, no tensor is written twice or read before it is
// written.
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

// One axis of a tensor: a named dimension, or a literal extent (bf16[1]). Within a statement axes are matched with ==:
// by name, and literals above 1 by their value (8192 in both operands of bf16[8, 8192] * bf16[8192, 64] -> bf16[8, 64]
// is one dimension). A literal 1 matches nothing and needs no match. No axis but a literal 1 stands twice in one
// tensor. Sharded, D_XY, each device holds one of X*Y equal parts, or of at most ceil(D/(X*Y)) where they are not.
struct Axis {
  std::string dim;           // empty: a literal
  std::int64_t literal = 0;  // >= 1 where dim is empty
  std::string mesh = {};     // "XY": the mesh axes that share it out, outermost first; empty: every device has it whole
  Span span = {};
  bool named() const { return !dim.empty(); }
  Polynomial extent() const { return named() ? Polynomial::symbol(dim) : Polynomial(literal); }
  bool operator==(const Axis& o) const { return dim == o.dim && literal == o.literal; }  // whatever its mesh axes
};

struct Dimension {
  std::string name;
  std::optional<Polynomial>
      value;  // its default, in other dimensions (F = 4*D); none: must be given by -d where numbers are needed
  Span span = {};
  // Of a ragged one, dims S = (700, 200, 124): those of the sequences that lie in it one behind the other. Its value is
  // their sum, and nothing else.
  std::vector<std::int64_t> lengths = {};
};

// An axis of the mesh of devices, a capital letter.
struct MeshAxis {
  std::string name;
  std::optional<std::int64_t> size;  // none: must be given by -d where anything is counted
  Span span = {};
};

enum class Role {
  input,
  intermediate,
  output
};  // output: written and never read, or declared with a dtype where it is written

struct Tensor {
  std::string name;
  DType dtype;               // of an undeclared intermediate: the widest operand's
  bool declared = false;     // its dtype stands in the program (of an input: or is the option's)
  std::vector<Axis> axes;    // row-major, the last one contiguous
  std::string partial = {};  // "X" of {U_X}: the devices along X hold addends of it
  Role role = Role::input;
  Span span = {};
};

// An input that holds others one behind the other, as PyTorch's chunk takes them apart: w: bf16[2*F, D], of which
// up[F, D] = w[0:F] and gate[F, D] = w[F:2*F] are the parts. Statements read the parts, which are inputs like any
// other; it is no tensor itself, only how they lie in a file and in memory. Its rows are those of its parts, in order.
struct Stack {
  std::string name;
  DType dtype;                 // of the parts, too
  Polynomial rows;             // 2*F
  std::vector<Axis> behind{};  // the other axes, the same in each part
  std::vector<int> parts{};    // indices into Program::tensors
  Span span = {};
};

// result[…] = left * right, summed over the dimensions that are not in the result. Indices into Program::tensors; left
// and right may be the same. The four lists hold named dimensions only, in the order of the left operand, then the
// right; a literal extent above 1 that the result has is found in its axes, one that is summed counts in
// literal_contracted. FLOPs: 2 * the result's extents * contracted * literal_contracted; without a sum (contracted
// empty, literal_contracted 1) a product is 1 an element.
struct Contraction {
  int result = 0, left = 0, right = 0;
  std::vector<std::string> batch;       // in both operands and in the result
  std::vector<std::string> left_free;   // in the left operand and in the result (the M of a matmul)
  std::vector<std::string> right_free;  // in the right operand and in the result (N)
  std::vector<std::string>
      contracted;  // in both operands, not in the result (K); empty: an outer or elementwise product
  std::int64_t literal_contracted = 1;  // the product of literal extents that are summed as well
  std::string partial = {};  // mesh axes that share a contracted dimension out: what each device has is an addend
  // With dims G = H/8, of an operand that has G where the others have H: each of its elements stands for `each` of them
  // along H, one behind the other. The lists above say H.
  struct Grouped {
    int tensor = 0;
    std::string dim, group;  // "H", "G"
    std::int64_t each = 1;
    bool operator==(const Grouped&) const = default;
  };
  std::optional<Grouped> grouped = {};
};

struct Routine;

// An expression over the result's index space, as a postfix tree: node i uses nodes before it.
struct Node {
  enum class Kind {
    tensor,
    number,
    index,     // index(T): where along a dimension the element lies, from 0 on
    size,      // size(T): how long a dimension is
    sequence,  // sequence(S): to which sequence of a ragged dimension the element belongs, from 0 on
    call,      // of each element by itself
    along,     // sum(x over D), softmax(x over D): along dimensions
    previous,  // in the body of a scan: the result one step earlier, 0 before the first
    routine,   // the last node of a statement that is a word of program/routine.h
  } kind;
  int tensor = 0;                // kind tensor: index into Program::tensors; its axes are found in the result's by name
  double number = 0;             // kind number
  Function function = {};        // kinds call and along
  std::vector<int> arguments{};  // kinds call, along and routine: indices of nodes
  int repeat = 1;            // kind call: how often the function is applied (repeat(64, cos, x)); unary functions only
  std::vector<Axis> over{};  // kind along: the dimensions; kinds index, size and sequence: the one that is meant
};

// index(T) and sequence(T): what an element's place along a dimension says.
inline bool is_place(const Node& node) { return node.kind == Node::Kind::index || node.kind == Node::Kind::sequence; }

// Of the functions along dimensions, those that leave them out: sum, mean, max, min. softmax and the norms keep them:
//   softmax(x)_i = exp(x_i - m) / sum_j exp(x_j - m), m = max_j x_j
//   rmsnorm(x)_i = x_i / sqrt(mean_j x_j^2 + 1e-5)
//   layernorm(x) = rmsnorm(x - mean x)
bool reduces(Function function);
inline constexpr double norm_epsilon = 1e-5;

// Every axis of an operand but a literal 1 is in the result or reduced, every one of the result but a literal 1 in some
// operand.
struct Expression {
  int result = 0;
  std::vector<Node> nodes;                   // the last one is the value
  std::shared_ptr<const Routine> routine{};  // of a last node of that kind; else none
};

// Where the nodes of an expression are evaluated: at the top in the result's index space, below a function along
// dimensions in that of its argument. In y[N, D] = x / sum(x * x over D) the product is evaluated in [N, D] (space 1),
// the quotient in the result's (space 0).
struct Spaces {
  std::vector<int> of;                  // of each node: index into `axes`
  std::vector<std::vector<Axis>> axes;  // that its operands have, without literal 1s; 0: the top
};
Spaces spaces(const std::vector<Tensor>& tensors, const std::vector<Node>& nodes);

struct Statement {
  std::variant<Contraction, Expression> op;
  std::string text;  // as the user wrote it, on one line
  Span span = {};
  int result() const {
    return std::visit([](const auto& o) { return o.result; }, op);
  }
};

// Whether an axis of an operand is the group of another dimension, which stands for it.
bool is_group(const Contraction& product, int tensor, const Axis& axis);

// The tensors that a statement reads, in order, those that it reads twice twice.
std::vector<int> operands(const Statement& statement);

struct Program {
  std::string source;  // "program" or the file's path, for messages
  std::string text;
  std::vector<Dimension> dims;  // in order of first appearance; on a dims line, what it declares first
  std::vector<MeshAxis> mesh;   // in order of first appearance; empty: nothing is sharded
  std::vector<Tensor> tensors;
  std::vector<Statement> statements;
  std::vector<Stack> stacks;
  std::vector<std::string> remarks = {};  // what was chosen: the order of a chain of products

  std::vector<std::string> dim_names() const;
  // All dimensions and mesh axes with their values: the bindings given, then the defaults. One without a value is left
  // out (evaluate() names it). Errors: a name that the program lacks, a value below 1.
  Result<Bindings> bind(const Bindings& given) const;
};

inline constexpr std::size_t max_program_bytes = std::size_t{64} << 20;  // of its text
inline constexpr std::size_t max_words = 1 << 20;                        // more would take more than a second to read
inline constexpr std::size_t max_statements = 10'000;  // more would take more than a second to count and to print

struct ParseOptions {
  std::string source = "program";
  DType dtype = DType::bf16;  // of tensors that name none
  Bindings sizes = {};        // by which chains of products are ordered, before the program's own; unknown names may be
                              // among them
};

// The lengths of the sequences along a dimension, its own or those of the one that it equals (T = S); empty: it is not
// ragged.
const std::vector<std::int64_t>& lengths_along(const Program& program, const std::string& dim);

// The stack that a tensor is a part of; none: it is no part.
const Stack* stack_of(const Program& program, int tensor);

// What running a sharded program on one device is refused with; none: nothing is sharded.
std::optional<Error> refuse_sharded(const Program& program, std::string_view verb);

// The collectives that a statement implies, each by the mesh axes that it runs over; empty: none.
struct Collectives {
  std::string all_reduce, reduce_scatter, all_gather, all_to_all;
};
Collectives collectives(const Program& program, const Statement& statement);
std::string text(const Collectives& collectives);  // "all-reduce over X"; empty: none

// Reads the notation of docs/notation.md. The first mistake is returned, with its place and a cure.
Result<Program> parse(std::string_view text, const ParseOptions& options = {});

// The program in canonical form; parse(print(p)) prints the same.
std::string print(const Program& program);

}  // namespace ridge

// Words whose work is no function of each element: a statement is one of them and nothing else.
//   y[N, K, H, W] = conv(x, w, stride = 1, padding = 1)   x: bf16[N, C, H, W], w: bf16[K, C, 3, 3]
//   y[N, D] = gather(table, ids over V)                   table: bf16[V, D], ids: int32[N]: row ids[n] of the table
//   y[V, D] = scatter(x, ids over V)                      the other way: y[v] is the sum of the x[n] with ids[n] = v
//   y[N, T] = cumsum(x over T)
//   i[N, 2] = topk(p over E)                              the indices of the 2 largest along E
//   q[N, D] = quantize(x, e4m3, block = 128)              a scale for each 128 elements along D, and their quotients
//   u[N, 2, F] = routed(x, w, i over E)                   x: bf16[N, D], w: bf16[E, F, D]: x * w[i], summed over D
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

enum class Word { conv, gather, scatter, cumsum, topk, routed, scan, quantize };
std::string_view name(Word word);

// The operands are the tensors among the expression's nodes, in order.
struct Routine {
  Word word = Word::conv;
  std::vector<Axis> over = {};  // all but conv: the dimension
  // conv: y[o] sums x[o*stride + k*dilation - padding] * w[k] along every window dimension; what lies outside of x is
  // 0. `groups` of channels each see their own part of the input's.
  std::int64_t stride = 1, padding = 0, dilation = 1;
  Polynomial groups = 1;
  // routed: how many rows each expert gets; empty: even. Rows beyond `capacity` are dropped; 0: none are.
  std::vector<std::int64_t> loads = {};
  std::int64_t capacity = 0;
  DType format = DType::mxfp8;  // quantize: of the result
};

bool operator==(const Routine& a, const Routine& b);

// The routine that a statement is; none: it is none.
const Routine* routine_of(const Statement& statement);
// Its operands, in order.
std::vector<int> operands_of(const Expression& expression);

// One of a convolution's window dimensions, with its sizes in dimensions.
struct Window {
  Axis in, out, kernel;
  std::int64_t stride = 1, padding = 0, dilation = 1;
  bool operator==(const Window&) const = default;
};
std::vector<Window> windows(const Program& program, const Expression& conv);
inline constexpr std::size_t conv_batch_and_channels = 2;  // axes in front of the windows'
inline constexpr std::int64_t longest_window = 1 << 16;

// How many positions a window takes: floor((in + 2*padding - dilation*(kernel - 1) - 1)/stride) + 1; none: it fits in
// nowhere, or a size leaves 2^62.
std::optional<std::int64_t> positions(const Window& window, std::int64_t in, std::int64_t kernel);
// Whether it takes as many as the result has whatever the sizes are.
bool always_fits(const Window& window);
bool always_fits(const Window& window, const Polynomial& in, const Polynomial& out, const Polynomial& kernel);

// How rows choose among experts: the last dimension of the indices holds the experts of one row.
struct Routing {
  std::vector<Axis> indices;
  Axis experts;
  std::vector<std::int64_t> loads;  // empty: even
  std::int64_t capacity = 0;        // 0: any number of rows
  bool operator==(const Routing&) const = default;
};
Routing routing_of(const Program& program, const Expression& routed);

// What is wrong with these sizes: a result of a convolution that is not as large as its formula says, groups that do
// not divide the channels. None: nothing is, or too little is known.
std::optional<Error> routine_fault(const Program& program, const Bindings& sizes);

// Whether a factor is block-scaled.
bool takes_scaled(const Program& program, const Contraction& product);
// A block-scaled tensor whose last dimension its blocks do not divide, on a device; none: every one is divided, or its
// size is not known.
std::optional<Error> block_fault(const Program& program, const Bindings& sizes);

// Why a statement's work cannot be cut along a dimension; empty: it can.
std::string uncuttable(const Program& program, const Statement& statement, const std::string& dim);

// What running a program on a CUDA device, or simulating it, is refused with; none: it has no such word.
std::optional<Error> refuse_routines(const Program& program, std::string_view verb);

}  // namespace ridge

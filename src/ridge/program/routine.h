// Routines: operations that are not elementwise. Each is a statement of its own.
//   y[N, K, H, W] = conv(x, w, stride = 1, padding = 1)   x: bf16[N, C, H, W], w: bf16[K, C, 3, 3]
//   y[N, H, W, K] = conv(x, w, stride = 1, padding = 1)   x: bf16[N, H, W, C], w: bf16[K, 3, 3, C]
//   y[N, K, P, Q] = conv_transpose(x, w, stride = 2)      x: bf16[N, C, H, W], w: bf16[C, K, 2, 2]
//   y[N, D] = gather(table, ids over V)                   table: bf16[V, D], ids: int32[N]: y[n] = table[ids[n]]
//   y[V, D] = scatter(x, ids over V)                      y[v] is the sum of all x[n] with ids[n] = v
//   y[N, T] = cumsum(x over T)
//   y[N, C, P, Q] = max_pool(x over H, W, window = 3, stride = 2)    x: bf16[N, C, H, W]; also avg_pool
//   i[N, 2] = topk(p over E)                              the indices of the 2 largest along E; argmax: of the largest
//   r[B, S, H, D] = rotary(q, t over D)                   rotates pairs of q: bf16[B, S, H, D] by positions t: int32[S]
//   s[N, D] = sort(x over D)                              argsort: the indices in this order
//   q[N, D] = quantize(x, e4m3, block = 128)              e4m3 elements with a scale per 128 elements along D
//   u[N, 2, F] = routed(x, w, i over E)                   x: bf16[N, D], w: bf16[E, F, D]: x * w[i], summed over D
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/program/program.h"

namespace ridge {

enum class RoutineKind {
  conv,
  conv_transpose,
  gather,
  scatter,
  cumsum,
  topk,
  routed,
  scan,
  quantize,
  argmax,
  sort,
  argsort,
  max_pool,
  avg_pool,
  rotary
};
std::string_view routine_name(RoutineKind kind);
inline bool gives_indices(RoutineKind kind) {
  return kind == RoutineKind::topk || kind == RoutineKind::argmax || kind == RoutineKind::argsort;
}
// True if the routine orders elements along its dimension: NaNs are last, and equal elements keep their order.
inline bool ranks_elements(RoutineKind kind) { return gives_indices(kind) || kind == RoutineKind::sort; }
inline bool is_pool(RoutineKind kind) { return kind == RoutineKind::max_pool || kind == RoutineKind::avg_pool; }
inline bool is_conv(RoutineKind kind) { return kind == RoutineKind::conv || kind == RoutineKind::conv_transpose; }
inline bool has_windows(RoutineKind kind) { return is_conv(kind) || is_pool(kind); }

// Arguments of a routine. Its operands are the tensor nodes of the expression, in order.
struct Routine {
  RoutineKind kind = RoutineKind::conv;
  std::vector<Axis> over = {};  // dimension of all routines except convolutions; a pool has one to three
  // conv: y[o] = sum over k of x[o*stride + k*dilation - padding] * w[k], along each window dimension; x is 0 outside
  // its bounds. Channels are divided into `groups` that are convolved separately.
  // conv_transpose: y[o] = sum of x[i] * w[k] over all i and k with i*stride + k*dilation - padding = o.
  std::int64_t stride = 1, padding = 0, dilation = 1;
  Polynomial groups = 1;
  bool channels_last = false;  // x[N, H, W, C] and w[K, R, S, C] instead of x[N, C, H, W] and w[K, C, R, S]
  std::int64_t window = 0;     // pools: size of the window along each dimension
  bool descending = false;     // sort, argsort: from the largest
  // rotary: pair i of D/2 is rotated by the position times base^(-2i/D). A pair is (i, i + D/2), or (2i, 2i + 1).
  std::int64_t base = 10'000;
  bool interleaved = false;
  // routed: rows per expert, or {} for an even distribution. Rows beyond `capacity` are dropped, unless it is 0.
  std::vector<std::int64_t> loads = {};
  std::int64_t capacity = 0;
  DType format = DType::mxfp8;  // quantize: dtype of the result
};

bool operator==(const Routine& a, const Routine& b);

// Returns the statement's routine, or nullptr.
const Routine* routine_of(const Statement& statement);
// Returns the tensors of the expression, in order.
std::vector<int> expression_operands(const Expression& expression);

// Window dimension of a convolution or pool, with its sizes as axes. Equal sizes are equal here, whichever axes have
// them. A transposed convolution has the windows of the convolution that it transposes: `in` is a dimension of its
// result, and `out`, the number of windows, one of its input.
struct WindowDimension {
  Axis in, out, kernel;
  std::int64_t stride = 1, padding = 0, dilation = 1;
  bool is_transposed = false;
  const Axis& result() const { return is_transposed ? in : out; }
  bool operator==(const WindowDimension&) const = default;
};
std::vector<WindowDimension> windows_of(const Program& program, const Expression& routine);

// Positions of axes that the input, the weights and the result of a convolution have in common. The first axis of the
// input and of the result is the batch.
struct ConvAxes {
  std::size_t channels, first_window;
};
ConvAxes conv_axes(const Routine& conv, std::size_t axes);  // axes: number of axes of each of the three tensors
// The input and the result of a convolution by their channels: those of `leading` are the first axis of the weights,
// and those of `grouped` are the other channels of the weights times the number of groups.
struct ConvChannels {
  int leading, grouped;  // indices into Program::tensors: the result and the input, or the reverse
  std::string_view leading_role, grouped_role;  // "result" and "input", or the reverse
};
ConvChannels conv_channels(const Routine& conv, int input, int result);
inline constexpr std::int64_t max_window = 1 << 16;

// Returns the number of window positions, floor((in + 2*padding - dilation*(kernel - 1) - 1)/stride) + 1, or nullopt if
// the window does not fit or a size exceeds 2^62.
std::optional<std::int64_t> count_window_positions(const WindowDimension& window, std::int64_t in, std::int64_t kernel);
// Returns the smallest size of a transposed convolution's result, (in - 1)*stride - 2*padding + dilation*(kernel - 1) +
// 1, which may be below 1, or nullopt if a size exceeds 2^45. The result may have up to max(stride, dilation) - 1
// elements more, the output padding.
std::optional<std::int64_t> min_transposed_size(const WindowDimension& window, std::int64_t in, std::int64_t kernel);
// True if windows of `kernel` elements have `out` positions in `in` or, if transposed, if `in` is a size that the
// result may have for `out` windows.
bool has_matching_sizes(const WindowDimension& window, std::int64_t in, std::int64_t out, std::int64_t kernel);
// True if the result has the size that its windows give it, whatever values the dimensions have.
bool always_gives_result_size(const WindowDimension& window);
bool always_gives_result_size(const WindowDimension& window, const Polynomial& in, const Polynomial& out,
                              const Polynomial& kernel);

// Routing of rows to experts. The last dimension of `indices` holds the experts of a row.
struct Routing {
  std::vector<Axis> indices;
  Axis experts;
  std::vector<std::int64_t> loads;  // rows per expert; {} if even
  std::int64_t capacity = 0;        // maximum rows per expert; 0: unlimited
  bool operator==(const Routing&) const = default;
};
Routing routing_of(const Program& program, const Expression& routed);

// Errors: the sizes are inconsistent, such as the result of a convolution, groups that do not divide the channels,
// loads. Unknown sizes are ignored.
Status validate_routine_sizes(const Program& program, const Bindings& sizes);

// True if a factor is block-scaled.
bool has_block_scaled_factor(const Program& program, const Contraction& product);
// Errors: a device's part of the last dimension of a block-scaled tensor is no multiple of the block;
// unknown sizes are ignored.
Status validate_block_sizes(const Program& program, const Bindings& sizes);

// Returns why a statement cannot be split along a dimension.
Reason split_unsupported_reason(const Program& program, const Statement& statement, const std::string& dim);

// Errors: simulators support no statement with a routine or with a grouped operand.
Status check_simulated_statements(const Program& program);

}  // namespace ridge

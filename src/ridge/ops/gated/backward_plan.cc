// Plans the backward pass of a gated layer: the plans of its products, the number of chunks, and for training whether
// forward keeps h. Times come from the products' models (ops/product/model.h) and a bandwidth for the pass over h.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/fitted.h"
#include "ridge/ops/gated/backward_steps.h"
#include "ridge/ops/gated/operands.h"
#include "ridge/ops/product/closed_form.h"

namespace ridge::ops::cuda {
namespace {

// Preferred limit on a product's workspace. A product that would need the slow plain kernel within it may use more.
constexpr std::size_t preferred_workspace_bytes = std::size_t{16} << 20;

double multiply_as_double(std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); }
// Returns the bytes of both halves of h.
std::int64_t hidden_bytes(DType dtype, std::int64_t rows, std::int64_t columns) {
  return 2 * operand_bytes(dtype) * rows * columns;
}
// Plans use addresses but never dereference them.
void* placeholder_pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

template <class Call>
auto choose_plan_within(const Call& call, std::size_t available_bytes, const DeviceNumbers& device) {
  const auto plan = choose_plan(call, std::min(available_bytes, preferred_workspace_bytes), device);
  return plan.path == decltype(plan)::Path::plain ? choose_plan(call, available_bytes, device) : plan;
}

struct ChunkCost {  // Scratch bytes and time of all steps of a chunk
  std::size_t scratch = 0;
  double seconds = 0;
  template <class Plan> void add_step(const Plan& plan) {
    scratch = std::max(scratch, plan.workspace_bytes);
    seconds += plan.predicted_s;
  }
};

std::vector<MatmulPlan> plan_products(const std::vector<MatmulCall>& calls, std::size_t available_bytes,
                                      const DeviceNumbers& device, ChunkCost& cost) {
  std::vector<MatmulPlan> out;
  for (const MatmulCall& call : calls) {
    out.push_back(choose_plan_within(call, available_bytes, device));
    cost.add_step(out.back());
    if (call.epilogue.addend.data)  // Adds the time to read dx
      cost.seconds += multiply_as_double(call.problem.size.m, call.problem.size.n) *
                      dtype_bits(call.epilogue.addend.dtype) / 8 / device.memory_bytes_per_s;
  }
  return out;
}

std::optional<GatedBackwardPlan::ChunkPlan> plan_steps(const GatedBackward& b, std::int64_t first, std::int64_t columns,
                                                       std::size_t available_bytes, const DeviceNumbers& device,
                                                       ChunkCost& cost) {
  const BackwardSteps s = make_backward_steps(b, first, columns, placeholder_pointer(4096));
  GatedBackwardPlan::ChunkPlan out;
  out.columns = columns;
  if (b.h == nullptr) cost.add_step(out.recompute = choose_plan_within(s.recompute, available_bytes, device));
  cost.scratch = std::max(cost.scratch, needed_workspace_bytes(s.gate));
  if (cost.scratch > available_bytes) return std::nullopt;
  const KernelConstants& n = kernel_constants();
  cost.seconds += n.gated_pass_launch_cycles / device.clock_hz +
                  5 * operand_bytes(b.dtype) * multiply_as_double(b.size.m, columns) /
                      (n.gated_pass_memory_share * device.memory_bytes_per_s);
  out.dw_products = plan_products(s.dw_products, available_bytes, device, cost);
  if (b.dx == nullptr) return out;
  ChunkCost separate_cost = cost;
  out.dx_products = plan_products(s.dx_products, available_bytes, device, separate_cost);
  out.dx = choose_plan(s.dx, device);
  if (out.dx &&
      cost.seconds + out.dx->predicted_s <= 1.01 * separate_cost.seconds) {  // Preferred, because it rounds dx once
    cost.seconds += out.dx->predicted_s;
    out.dx_products.clear();
  } else {
    out.dx.reset();
    cost = separate_cost;
  }
  return out;
}

// Returns the columns per chunk: n divided evenly, rounded up to a multiple of 64 columns.
std::int64_t columns_per_chunk(std::int64_t n, int chunks) {
  return std::min(n, ceil_div(ceil_div(n, chunks), 64) * 64);
}

Reason validate_matrices(const GatedBackward& b) {
  const bool recomputes_h = b.h == nullptr, needs_weight_gradients = b.dup || b.dgate;
  struct MatrixCheck {
    const char* name;
    const void* data;
    bool needed;
    std::int64_t line_count, stride, min_stride;
  };
  const bool any = b.size.m > 0 && b.size.n > 0, has_width = any && b.size.k > 0;
  for (const MatrixCheck& matrix :
       {MatrixCheck{"x", b.x, has_width && (recomputes_h || needs_weight_gradients), b.size.m, b.x_row_stride,
                    b.size.k},
        {"up", b.up, has_width && (recomputes_h || b.dx), b.size.n, b.weight_line_stride, b.size.k},
        {"gate", b.gate, has_width && (recomputes_h || b.dx), b.size.n, b.weight_line_stride, b.size.k},
        {"bu", b.bu, false, 0, 0, 0},
        {"bg", b.bg, false, 0, 0, 0},
        {"dy", b.dy, any, b.size.m, b.dy_row_stride, b.size.n},
        {"h", b.h, false, b.size.m, b.h_row_stride, 2 * b.size.n},
        {"dh", b.dh, false, b.size.m, b.h_row_stride, 2 * b.size.n},
        {"dx", b.dx, false, b.size.m, b.dx_row_stride, b.size.k},
        {"dup", b.dup, false, b.size.n, b.weight_grad_row_stride, b.size.k},
        {"dgate", b.dgate, false, b.size.n, b.weight_grad_row_stride, b.size.k},
        {"dbu", b.dbu, false, 0, 0, 0},
        {"dbg", b.dbg, false, 0, 0, 0}}) {
    if (matrix.needed && matrix.data == nullptr)
      return fmt::format("{}: expected device memory, found a null pointer", matrix.name);
    if (reinterpret_cast<std::uintptr_t>(matrix.data) % 2 != 0)
      return fmt::format("{}: expected a pointer to whole {} elements, found one that is not a multiple of 2 bytes",
                         matrix.name, dtype_name(b.dtype));
    if (matrix.data != nullptr && matrix.line_count > 1 && matrix.stride < matrix.min_stride)
      return fmt::format("{}: expected a stride of at least {}, found {}: its rows would overlap", matrix.name,
                         matrix.min_stride, matrix.stride);
  }
  return {};
}

}  // namespace

std::optional<InputGradientPlan> choose_plan(const InputGradient& c, const DeviceNumbers& device) {
  constexpr std::int64_t max_int = (std::int64_t{1} << 31) - 1024;
  if (c.size.m == 0 || c.size.n == 0 || c.size.k == 0 || c.size.m > max_int || c.size.n > max_int ||
      c.size.k > max_int / 2)
    return std::nullopt;
  if (!SixteenBitFloats::contains(c.dtype)) return std::nullopt;
  const int element_bytes = operand_bytes(c.dtype);
  const auto make_operand = [&](const void* data, std::int64_t line) {
    return TileOperand{data, c.dtype, tile::Major::k, 2, 0, line, 0};
  };
  const auto can_read = [&](const void* data, std::int64_t line) {
    return can_copy_engine_read(make_operand(data, line), 1);
  };
  if (!can_read(c.du, c.dh_row_stride) || !can_read(c.dg, c.dh_row_stride) || !can_read(c.up, c.weight_line_stride) ||
      !can_read(c.gate, c.weight_line_stride) || !can_read(c.dx, c.dx_row_stride) || c.size.n * element_bytes % 16 != 0)
    return std::nullopt;
  TileWork work{1, {c.size.m, c.size.n, 2 * ceil_div(c.size.k, 64) * 64}, c.dtype};
  work.minimum_bytes =
      element_bytes * (2 * multiply_as_double(c.size.m, c.size.k) + 2 * multiply_as_double(c.size.k, c.size.n) +
                       (c.add ? 2 : 1) * multiply_as_double(c.size.m, c.size.n));
  work.alignment_a = line_alignment(make_operand(c.du, c.dh_row_stride));
  work.alignment_b = line_alignment(make_operand(c.up, c.weight_line_stride));
  InputGradientPlan best;
  for (int config = 0; config < static_cast<int>(input_gradient_kernel_configs.size()); ++config) {
    const MatmulConfig& shape = input_gradient_kernel_configs[config];
    if (ceil_div(c.size.m, shape.m) > max_int / ceil_div(c.size.n, shape.n)) continue;
    const std::int64_t tiles = ceil_div(c.size.m, shape.m) * ceil_div(c.size.n, shape.n);
    const double seconds = predict_seconds(shape, work, {1, tile::SplitMode::split_k}, device);
    if (best.config < 0 || seconds < best.predicted_s)
      best = {config, static_cast<int>(std::min<std::int64_t>(tiles, device.multiprocessors)), seconds};
  }
  return best.config < 0 ? std::nullopt : std::optional(best);
}

Reason unsupported_reason(const GatedBackward& b) {
  if (b.size.m < 0 || b.size.n < 0 || b.size.k < 0)
    return fmt::format("expected sizes of at least 0, found n {}, f {}, d {}", b.size.m, b.size.n, b.size.k);
  if (!SixteenBitFloats::contains(b.dtype))
    return fmt::format("expected {}, found {}", SixteenBitFloats::names(), dtype_name(b.dtype));
  constexpr std::int64_t max_rows = 65535 * GateGradientCall::rows_per_block;
  if (b.size.m > max_rows) return fmt::format("expected at most {} rows, found {}", max_rows, b.size.m);
  return validate_matrices(b);
}

std::optional<GatedBackwardPlan> make_plan(const GatedBackward& b, std::size_t workspace_bytes,
                                           const DeviceNumbers& device, std::int64_t chunk) {
  const std::size_t h_chunk_bytes =
      b.h ? 0 : static_cast<std::size_t>(ceil_div(hidden_bytes(b.dtype, b.size.m, chunk), 256) * 256);
  if (h_chunk_bytes > workspace_bytes) return std::nullopt;
  const std::size_t available_bytes = (workspace_bytes - h_chunk_bytes) / 256 * 256;
  const std::int64_t full_chunks = chunk == 0 ? 1 : b.size.n / chunk, last_columns = chunk == 0 ? 0 : b.size.n % chunk;
  ChunkCost first_cost, other_cost;
  const auto each = plan_steps(b, 0, chunk, available_bytes, device, first_cost);
  if (!each) return std::nullopt;
  GatedBackwardPlan plan{chunk, *each, *each};
  plan.predicted_s = first_cost.seconds;
  // The first chunk stores dx and the others add to it, so their plans differ if two products compute dx.
  for (const auto& [columns, count] :
       {std::pair{chunk, full_chunks - 1}, {last_columns, std::int64_t{last_columns > 0}}}) {
    if (count <= 0) continue;
    ChunkCost chunk_cost;
    const auto steps =
        plan_steps(b, columns == chunk ? chunk : full_chunks * chunk, columns, available_bytes, device, chunk_cost);
    if (!steps) return std::nullopt;
    plan.predicted_s += chunk_cost.seconds * static_cast<double>(count);
    other_cost.scratch = std::max(other_cost.scratch, chunk_cost.scratch);
    if (columns != chunk) plan.last = *steps;
  }
  plan.scratch_bytes = static_cast<std::size_t>(
      ceil_div(static_cast<std::int64_t>(std::max(first_cost.scratch, other_cost.scratch)), 256) * 256);
  plan.workspace_bytes = plan.scratch_bytes + h_chunk_bytes;
  if (plan.workspace_bytes > workspace_bytes) return std::nullopt;
  return plan;
}

GatedBackwardPlan choose_plan(const GatedBackward& b, std::size_t workspace_bytes, const DeviceNumbers& device) {
  const int chunk_limit = b.h ? 1 : GatedBackward::max_chunks;
  std::vector<GatedBackwardPlan> all;
  for (int chunks = 1; chunks <= chunk_limit; ++chunks)
    if (const auto plan = make_plan(b, workspace_bytes, device, columns_per_chunk(b.size.n, chunks)))
      all.push_back(*plan);
  if (all.empty()) {
    const std::int64_t chunk = columns_per_chunk(b.size.n, chunk_limit),
                       sums = ceil_div(b.size.m, GateGradientCall::rows_per_block) * 8 * chunk;
    return *make_plan(
        b, static_cast<std::size_t>(hidden_bytes(b.dtype, b.size.m, chunk) + sums + 512) + device::counter_bytes,
        device, chunk);
  }
  double min_seconds = all.front().predicted_s;
  for (const GatedBackwardPlan& plan : all) min_seconds = std::min(min_seconds, plan.predicted_s);
  std::erase_if(all, [&](const GatedBackwardPlan& plan) { return plan.predicted_s > 1.01 * min_seconds; });
  return *std::min_element(all.begin(), all.end(), [](const GatedBackwardPlan& x, const GatedBackwardPlan& y) {
    return x.workspace_bytes < y.workspace_bytes;
  });
}

namespace {

// Returns an address that is aligned for every kernel and belongs to no memory; plans read only the alignment.
void* distinct_placeholder(int i) { return placeholder_pointer(std::uintptr_t{1} << (40 + i)); }

GatedCall make_placeholder_forward(const GatedCall& layer) {
  GatedCall forward = layer;
  forward.x = distinct_placeholder(0);
  forward.up = distinct_placeholder(1);
  forward.gate = distinct_placeholder(2);
  forward.y = distinct_placeholder(3);
  forward.h = nullptr;
  forward.out = forward.bias = layer.dtype;
  forward.x_row_stride = forward.weight_line_stride = layer.size.k;
  forward.y_row_stride = layer.size.n;
  forward.h_row_stride = 2 * layer.size.n;
  return forward;
}

GatedBackward make_placeholder_backward(const GatedCall& layer, const GatedCall& forward) {
  GatedBackward backward{.size = layer.size, .dtype = layer.dtype, .activation = layer.activation};
  backward.x = forward.x;
  backward.up = forward.up;
  backward.gate = forward.gate;
  backward.dy = distinct_placeholder(4);
  backward.dx = distinct_placeholder(5);
  backward.dup = distinct_placeholder(6);
  backward.dgate = static_cast<char*>(backward.dup) + layer.size.n * layer.size.k * operand_bytes(layer.dtype);
  backward.dbu = distinct_placeholder(8);
  backward.dbg = static_cast<char*>(backward.dbu) + layer.size.n * operand_bytes(layer.dtype);
  backward.x_row_stride = backward.weight_line_stride = backward.dx_row_stride = backward.weight_grad_row_stride =
      layer.size.k;
  backward.dy_row_stride = layer.size.n;
  backward.h_row_stride = 2 * layer.size.n;
  return backward;
}

}  // namespace

Result<GatedTrainingPlan> plan_gated_training(const GatedCall& layer, std::size_t free_bytes,
                                              const DeviceNumbers& device) {
  GatedCall forward = make_placeholder_forward(layer);
  GatedBackward backward = make_placeholder_backward(layer, forward);
  if (const auto why = unsupported_reason(backward)) return input_error(why.text());
  const auto h_bytes = static_cast<std::size_t>(hidden_bytes(layer.dtype, layer.size.m, layer.size.n));
  std::size_t needed_bytes = 0;
  for (const bool keeps_h : {true, false}) {
    const std::size_t h_kept_bytes = keeps_h ? h_bytes : 0,
                      available_bytes = free_bytes > h_kept_bytes ? free_bytes - h_kept_bytes : 0;
    forward.h = backward.h = keeps_h ? distinct_placeholder(9) : nullptr;
    const GatedBackwardPlan plan = choose_plan(backward, available_bytes, device);
    const GatedPlan forward_plan = choose_plan_within(forward, available_bytes, device);
    needed_bytes = h_kept_bytes + plan.workspace_bytes;
    if (needed_bytes <= free_bytes)
      return GatedTrainingPlan{keeps_h, plan.chunk,
                               h_kept_bytes + std::max(plan.workspace_bytes, forward_plan.workspace_bytes),
                               forward_plan.predicted_s, plan.predicted_s};
  }
  return input_error(
      fmt::format("expected {} free bytes besides inputs and outputs, found {}", needed_bytes, free_bytes),
      fmt::format("backward needs h and its gradient for 1/{} of the {} hidden columns: use fewer "
                  "than {} rows",
                  GatedBackward::max_chunks, layer.size.n, layer.size.m));
}

}  // namespace ridge::ops::cuda

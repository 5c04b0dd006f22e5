// Chooses the config of a gated layer on Hopper with the model of a product: both halves are one product of twice the
// width.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ridge/base/ceil_div.h"
#include "ridge/ops/gated/config.h"
#include "ridge/ops/gated/gradient.h"
#include "ridge/ops/gated/operands.h"
#include "ridge/ops/product/closed_form.h"

namespace ridge::ops::cuda {

GatedCall make_gated_call(const GatedLayer& l) {
  GatedCall c;
  c.size = {l.n, l.f, l.d};
  c.dtype = c.out = c.bias = l.dtype;
  c.activation = l.activation;
  c.x = l.x;
  c.up = l.up;
  c.gate = l.gate;
  c.bu = l.bu;
  c.bg = l.bg;
  c.y = l.y;
  c.x_row_stride = c.weight_line_stride = l.d;
  c.y_row_stride = l.f;
  c.h_row_stride = 2 * l.f;
  return c;
}

TileOperand GatedOperands::make_operand(const void* data, DType dtype, std::int64_t extent, std::int64_t k,
                                        std::int64_t line, tile::Major major) {
  TileOperand x{data, dtype, major, extent, k, line, 0};
  if (x.line_count() <= 1) x.line_stride = copy_line_stride(x);  // Unused, but the copy engine checks it
  return x;
}

GatedOperands make_gated_operands(const GatedCall& c) {
  return {GatedOperands::make_operand(c.x, c.dtype, c.size.m, c.size.k, c.x_row_stride),
          GatedOperands::make_operand(c.up, c.dtype, c.size.n, c.size.k, c.weight_line_stride, c.weights),
          GatedOperands::make_operand(c.gate, c.dtype, c.size.n, c.size.k, c.weight_line_stride, c.weights)};
}

Reason unsupported_reason(const GatedCall& c) {
  if (c.size.m < 0 || c.size.n < 0 || c.size.k < 0)
    return fmt::format("expected sizes of at least 0, found n {}, f {}, d {}", c.size.m, c.size.n, c.size.k);
  if (!StoredFloats::contains(c.dtype) || !StoredFloats::contains(c.out) || !StoredFloats::contains(c.bias))
    return fmt::format("expected bf16, f16 or f32, found {} -> {} with biases in {}", dtype_name(c.dtype),
                       dtype_name(c.out), dtype_name(c.bias));
  const bool is_k_major = c.weights == tile::Major::k;
  for (const auto& [name, lines, line, min_stride] :
       {std::tuple{"x", c.size.m, c.x_row_stride, c.size.k},
        {"weights", is_k_major ? c.size.n : c.size.k, c.weight_line_stride, is_k_major ? c.size.k : c.size.n},
        {"y", c.y != nullptr ? c.size.m : 0, c.y_row_stride, c.size.n}})
    if (lines > 1 && line < min_stride)
      return fmt::format("{}: expected a stride of at least {}, found {}: its rows would overlap", name, min_stride,
                         line);
  if (c.h != nullptr && c.size.m > 1 && c.h_row_stride < 2 * c.size.n)
    return fmt::format("h: expected a stride of at least {}, found {}: its rows would overlap", 2 * c.size.n,
                       c.h_row_stride);
  const bool has_results = c.size.m > 0 && c.size.n > 0;
  if (has_results && c.y == nullptr && c.h == nullptr) return "y: expected device memory, found a null pointer";
  for (const auto& [name, data] : {std::pair{"x", c.x}, {"up", c.up}, {"gate", c.gate}})
    if (has_results && c.size.k > 0 && data == nullptr)
      return fmt::format("{}: expected device memory, found a null pointer", name);
  for (const auto& [name, data, dtype] : {std::tuple{"x", c.x, c.dtype},
                                          {"up", c.up, c.dtype},
                                          {"gate", c.gate, c.dtype},
                                          {"bu", c.bu, c.bias},
                                          {"bg", c.bg, c.bias},
                                          {"y", static_cast<const void*>(c.y), c.out},
                                          {"h", static_cast<const void*>(c.h), c.dtype}})
    if (const auto bytes = static_cast<std::uintptr_t>(dtype_bits(dtype) / 8);
        reinterpret_cast<std::uintptr_t>(data) % bytes != 0)
      return fmt::format("{}: expected a pointer to whole {} elements, found one that is not a multiple of {} bytes",
                         name, ridge::dtype_name(dtype), bytes);
  return {};
}

// Returns the work of both products as one, without copies of operands.
static TileWork make_gated_work(const GatedCall& call) {
  const int element_bytes = operand_bytes(call.dtype);
  TileWork work{1, {call.size.m, 2 * call.size.n, call.size.k}, call.dtype};
  const auto product = [](std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); };
  work.minimum_bytes = element_bytes * (product(call.size.m, call.size.k) + 2 * product(call.size.n, call.size.k)) +
                       product(call.size.m, call.size.n) * ((call.y != nullptr ? dtype_bits(call.out) / 8 : 0) +
                                                            (call.h != nullptr ? 2 * element_bytes : 0));
  return work;
}

std::optional<GatedPlan> make_plan(const GatedCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                   int config, int splits) {
  const MatmulConfig& c = sm90_gated_kernel_configs[config];
  if (call.size.m == 0 || call.size.n == 0 || call.size.k == 0 || c.b != call.weights) return std::nullopt;
  if (!SixteenBitFloats::contains(call.dtype)) return std::nullopt;
  constexpr std::int64_t max_int = (std::int64_t{1} << 31) - 1024;
  const std::int64_t stages = ceil_div(call.size.k, c.k);
  if (call.size.m > max_int || 2 * call.size.n > max_int || call.size.k > max_int || stages * splits > max_int)
    return std::nullopt;
  if (ceil_div(call.size.m, c.m) > max_int / ceil_div(call.size.n, c.n / 2) / splits) return std::nullopt;
  if (splits > 1 && (!c.can_split() || stages < splits)) return std::nullopt;
  GatedPlan plan{GatedPlan::Path::tiles, config};
  const GatedOperands operands = make_gated_operands(call);
  double copied = 0;
  const auto plan_copy = [&](const TileOperand& x, bool& copy) {
    copy = !can_copy_engine_read(x, 1);
    if (copy) {
      plan.workspace_bytes += copy_size_bytes(x, 1);
      copied += static_cast<double>(copy_size_bytes(x, 1));
    }
  };
  plan_copy(operands.x, plan.copy_x);
  plan_copy(operands.up, plan.copy_up);
  plan_copy(operands.gate, plan.copy_gate);
  plan.tiles = ceil_div(call.size.m, c.m) * ceil_div(call.size.n, c.n / 2);
  plan.splits = splits;
  plan.blocks = static_cast<int>(std::min<std::int64_t>(plan.tiles * splits, device.multiprocessors));
  if (splits > 1) {
    if (plan.tiles * c.warpgroups_per_tile() * 4 > static_cast<std::int64_t>(device::counter_bytes))
      return std::nullopt;
    plan.workspace_bytes += partial_sum_bytes(c, plan.tiles * splits);
  }
  if (plan.workspace_bytes > 0) plan.workspace_bytes += device::counter_bytes;
  if (plan.workspace_bytes > workspace_bytes) return std::nullopt;
  TileWork work = make_gated_work(call);
  work.copies = plan.copy_x + plan.copy_up + plan.copy_gate;
  work.copied_bytes = copied;
  plan.predicted_s = predict_seconds(c, work, {splits, tile::SplitMode::split_k}, device);
  return plan;
}

GatedPlan choose_plan(const GatedCall& call, std::size_t workspace_bytes, const DeviceNumbers& device) {
  GatedPlan best;
  if (call.size.m == 0 || call.size.n == 0) {
    best.path = GatedPlan::Path::nothing;
    return best;
  }
  for (int config = 0; config < static_cast<int>(sm90_gated_kernel_configs.size()); ++config)
    for (const int splits : {1, 2, 3, 4, 6, 8}) {
      const std::optional<GatedPlan> plan = make_plan(call, workspace_bytes, device, config, splits);
      if (plan && (best.path != GatedPlan::Path::tiles || plan->predicted_s < best.predicted_s)) best = *plan;
    }
  return best;
}

Reason unsupported_reason(const GateGradientCall& c) {
  if (c.m < 0 || c.n < 0) return fmt::format("expected sizes of at least 0, found n {}, f {}", c.m, c.n);
  if (!SixteenBitFloats::contains(c.dtype))
    return fmt::format("expected {}, found {}", SixteenBitFloats::names(), dtype_name(c.dtype));
  if (ceil_div(c.m, c.rows_per_block) > 65535)
    return fmt::format("expected at most {} rows, found {}", 65535 * c.rows_per_block, c.m);
  const bool has_results = c.m > 0 && c.n > 0;
  for (const auto& [name, data, line, min_stride] :
       {std::tuple{"dy", c.dy, c.dy_row_stride, c.n},
        {"h", c.h, c.h_row_stride, 2 * c.n},
        {"dh", static_cast<const void*>(c.dh), c.dh_row_stride, 2 * c.n}}) {
    if (has_results && data == nullptr) return fmt::format("{}: expected device memory, found a null pointer", name);
    if (const int bytes = operand_bytes(c.dtype); reinterpret_cast<std::uintptr_t>(data) % bytes != 0)
      return fmt::format("{}: expected a pointer to whole elements, found one that is not a multiple of {} bytes", name,
                         bytes);
    if (c.m > 1 && line < min_stride)
      return fmt::format("{}: expected a stride of at least {}, found {}: its rows would overlap", name, min_stride,
                         line);
  }
  return {};
}

std::size_t needed_workspace_bytes(const GateGradientCall& c) {
  return c.dbu == nullptr && c.dbg == nullptr
             ? 0
             : device::counter_bytes + static_cast<std::size_t>(ceil_div(c.m, c.rows_per_block) * 2 * c.n) * 4;
}

}  // namespace ridge::ops::cuda

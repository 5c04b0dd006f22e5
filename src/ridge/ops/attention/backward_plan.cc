#include "ridge/ops/attention/backward_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/base/operand_type.h"
#include "ridge/ops/attention/config.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/fitted.h"

namespace ridge::ops {
namespace {

std::size_t round_up_to_256(std::int64_t bytes) { return static_cast<std::size_t>(ceil_div(bytes, 256) * 256); }

// Returns the number of steps of the item whose keys begin at `key`; must agree with the kernel (backward.h).
std::int64_t count_item_steps(const AttentionProblem& p, const AttentionBackwardConfig& c, std::int64_t key) {
  const std::int64_t first = std::max<std::int64_t>(0, key - p.high), end = std::min(p.rows, key + c.m - 1 - p.low + 1);
  return (ceil_div(end, c.q) - first / c.q) * (p.heads / p.key_heads);
}

struct BackwardStepCounts {                           // Counts for one key head
  std::int64_t total = 0, longest = 0, shortest = 0;  // Steps of all items, of the longest and of the shortest item
  std::int64_t items = 0;
};
BackwardStepCounts count_steps(const AttentionProblem& p, const AttentionBackwardConfig& c) {
  BackwardStepCounts out;
  const VisibleKeys visible = find_visible_keys(p);
  for (std::int64_t key = visible.first / c.m * c.m; key < visible.end; key += c.m, ++out.items) {
    const std::int64_t item_steps = count_item_steps(p, c, key);
    out.total += item_steps;
    out.longest = std::max(out.longest, item_steps);
    out.shortest = out.items == 0 ? item_steps : std::min(out.shortest, item_steps);
  }
  return out;
}

// Returns the number of key heads that run concurrently. If all items take equally long, the number is 1, so that the
// head's rows stay in the L2. Otherwise the longest items of several heads start first: enough heads to fill the
// device, or more if their rows fit in the L2.
int choose_concurrent_heads(const AttentionProblem& p, const BackwardStepCounts& step_counts,
                            const DeviceNumbers& device) {
  constexpr double max_l2_fraction = 0.35;
  if (step_counts.longest == step_counts.shortest) return 1;
  // Bytes of q and dout, and of the f32 sums
  const double bytes =
      (2.0 * operand_bytes(p.dtype) + 4) * static_cast<double>(p.rows * p.width * (p.heads / p.key_heads));
  const double heads_in_l2 = max_l2_fraction * static_cast<double>(device.l2_bytes) / bytes;
  const std::int64_t heads_to_fill_device = ceil_div(device.multiprocessors, step_counts.items);
  const std::int64_t heads = p.outer * p.key_heads,
                     max_heads = std::clamp<std::int64_t>(
                         std::max(static_cast<std::int64_t>(heads_in_l2), heads_to_fill_device), 1, heads);
  // Chooses, among the numbers above half of max_heads, the one that leaves the fewest slots idle in the last round.
  const auto idle_heads = [&](std::int64_t width) { return ceil_div(heads, width) * width - heads; };
  std::int64_t best = max_heads;
  for (std::int64_t width = max_heads; 2 * width > max_heads; --width)
    if (idle_heads(width) * best < idle_heads(best) * width) best = width;
  return static_cast<int>(best);
}

Reason validate_layout_as_q(const char* name, const HeadsLayout& x, const AttentionProblem& p) {
  AttentionProblem as_q = p;
  as_q.q = as_q.o = x;
  if (auto why = cuda::unsupported_reason(as_q)) return fmt::format("{}, where q means {}", why.text(), name);
  return {};
}

}  // namespace

VisibleKeys find_visible_keys(const AttentionProblem& p) {
  if (p.low > p.high) return {};
  return {std::max<std::int64_t>(0, p.low), std::min(p.keys, p.rows + p.high)};
}

Reason validate_uniform_sequences(const AttentionProblem& p) {
  if (p.lengths || p.packed)
    return "expected sequences of one length in attention's gradients, found a length for each: mask the scores "
           "instead";
  if (p.pages) return "expected contiguous keys and values in attention's gradients, found pages";
  return {};
}

namespace cuda {

Reason unsupported_reason(const AttentionBackwardProblem& x) {
  const AttentionProblem& p = x.forward;
  if (auto why = validate_uniform_sequences(p)) return why;
  if (auto why = cuda::unsupported_reason(p)) return why;
  if (p.cap != 0) return fmt::format("expected scores that are not capped, found a cap of {}", p.cap);
  constexpr std::int64_t max_grid_extent = 65535;  // CUDA's limit for the second and third dimension of a grid
  if (p.heads > max_grid_extent || p.outer > max_grid_extent)
    return fmt::format("expected heads per group and groups of at most {}, found {} heads in {} groups",
                       max_grid_extent, p.heads, p.outer);
  if (!p.moves_with_rows) return "expected a mask that moves with the rows, found the same keys for all rows";
  for (const auto& [name, layout] : {std::pair{"the gradient of o", x.dout}, std::pair{"dq", x.dq}})
    if (auto why = validate_layout_as_q(name, layout, p)) return why;
  AttentionProblem keys_as_rows = p;
  keys_as_rows.heads = p.key_heads;
  keys_as_rows.rows = p.keys;
  for (const auto& [name, layout] : {std::pair{"dk", x.dk}, std::pair{"dv", x.dv}})
    if (auto why = validate_layout_as_q(name, layout, keys_as_rows)) return why;
  return {};
}

std::string backward_config_name(int config) {
  const AttentionBackwardConfig& c = attention_backward_kernel_configs[config];
  return fmt::format("sm90_attention_backward_{}x{}x{}", c.m, c.q, c.d);
}

std::optional<int> find_backward_config(std::string_view name) {
  for (int i = 0; i < attention_backward_config_count(); ++i)
    if (backward_config_name(i) == name) return i;
  return std::nullopt;
}
int attention_backward_config_count() { return static_cast<int>(attention_backward_kernel_configs.size()); }
std::int64_t rows_per_step(int config) { return attention_backward_kernel_configs[config].q; }

AttentionBackwardPlan choose_plan(const AttentionBackwardProblem& x, const DeviceNumbers& device) {
  const AttentionProblem& p = x.forward;
  AttentionBackwardPlan out;
  while (attention_backward_kernel_configs[out.config].d < p.width) ++out.config;
  const AttentionBackwardConfig& c = attention_backward_kernel_configs[out.config];
  const BackwardStepCounts step_counts = count_steps(p, c);
  const std::int64_t matrices = p.outer * p.key_heads;
  out.tiles_per_head = ceil_div(p.rows, c.q);
  out.items = matrices * step_counts.items;
  out.steps = matrices * step_counts.total;
  if (step_counts.items > 0) out.concurrent_heads = choose_concurrent_heads(p, step_counts, device);
  const std::int64_t all_tiles = p.outer * p.heads * out.tiles_per_head;
  out.dq_sums_bytes = round_up_to_256(all_tiles * c.q * c.d * 4);
  out.row_stats_bytes = round_up_to_256(all_tiles * 2 * c.q * 4);
  out.add_counts_bytes = x.ordered ? round_up_to_256(all_tiles * c.consumers * 4) : 0;
  out.workspace_bytes = out.dq_sums_bytes + out.row_stats_bytes + out.add_counts_bytes;
  const KernelConstants& n = kernel_constants();
  const double step_cycles = 5.0 * c.m * c.q * c.d / (n.multiply_adds_per_cycle * n.backward_multiply_share);
  const double item_cycles = n.attention_item_cycles;
  const double longest_cycles = item_cycles + static_cast<double>(step_counts.longest) * step_cycles;
  const double total_cycles =
      static_cast<double>(out.items) * item_cycles + static_cast<double>(out.steps) * step_cycles;
  const double cycles =
      out.items <= device.multiprocessors ? longest_cycles : total_cycles / device.multiprocessors + longest_cycles / 2;
  // The passes before and after the kernel read o and dO, write and read the sums of dq, and write dq.
  const double row_bytes = static_cast<double>(p.outer * p.heads * p.rows * p.width);
  const double passes =
      2 * device.launch_s + row_bytes * (3.0 * dtype_bits(p.dtype) / 8 + 8) / device.memory_bytes_per_s;
  out.predicted_s =
      device.launch_s + passes + std::max(cycles / device.busy_clock_hz, traffic_bytes(x) / device.memory_bytes_per_s);
  return out;
}

}  // namespace cuda

double flops(const AttentionBackwardProblem& x) { return 2.5 * flops(x.forward); }
double traffic_bytes(const AttentionBackwardProblem& x) {
  const AttentionProblem& p = x.forward;
  const double row_bytes = static_cast<double>(p.outer * p.width * (dtype_bits(p.dtype) / 8));
  const double keys = static_cast<double>(p.key_heads * (p.keys + count_seen_keys(p)));  // Gradients are of all keys
  return row_bytes * (4 * static_cast<double>(p.heads * p.rows) + 2 * keys);
}

Result<Forecast> forecast(const AttentionBackwardProblem& x, const DeviceNumbers& device) {
  if (const auto why = cuda::unsupported_reason(x)) return input_error(why.text());
  const cuda::AttentionBackwardPlan plan = cuda::choose_plan(x, device);
  const AttentionBackwardConfig& c = attention_backward_kernel_configs[plan.config];
  Forecast out;
  out.is_main_kernel = true;
  out.plan.kernel = cuda::backward_config_name(plan.config);
  out.plan.tile_m = c.m;
  out.plan.tile_n = c.q;
  out.plan.tile_k = c.d;
  out.plan.stages = c.stages;
  out.plan.waves = ceil_div(plan.items, device.multiprocessors);
  out.seconds = plan.predicted_s;
  out.spread = spread_on_device(device, "attention_backward");
  const double step_bytes = 2.0 * c.q * static_cast<double>(x.forward.width) * (dtype_bits(x.forward.dtype) / 8);
  const MovedBytes moved_bytes{static_cast<std::int64_t>(static_cast<double>(plan.steps) * step_bytes),
                               static_cast<std::int64_t>(traffic_bytes(x))};
  out.count_bytes = [moved_bytes] { return moved_bytes; };
  return out;
}

}  // namespace ridge::ops

#include "ridge/ops/attention/backward_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/ops/attention/config.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/fitted.h"

namespace ridge::ops {
namespace {

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }
std::size_t in_lines(std::int64_t bytes) { return static_cast<std::size_t>(up(bytes, 256) * 256); }

// Returns the number of steps of the item whose keys begin at `key`; must agree with the kernel (backward.h).
std::int64_t steps_of(const AttentionProblem& p, const AttentionBackwardConfig& c, std::int64_t key) {
  const std::int64_t first = std::max<std::int64_t>(0, key - p.high), end = std::min(p.rows, key + c.m - 1 - p.low + 1);
  return (up(end, c.q) - first / c.q) * (p.heads / p.key_heads);
}

struct Work {  // Numbers of steps, and of items, of one key head
  std::int64_t all = 0, longest = 0, shortest = 0, items = 0;
};
Work work_of(const AttentionProblem& p, const AttentionBackwardConfig& c) {
  Work out;
  const SeenKeys seen = seen_keys(p);
  for (std::int64_t key = seen.first / c.m * c.m; key < seen.end; key += c.m, ++out.items) {
    const std::int64_t here = steps_of(p, c, key);
    out.all += here;
    out.longest = std::max(out.longest, here);
    out.shortest = out.items == 0 ? here : std::min(out.shortest, here);
  }
  return out;
}

// Returns the number of heads that run concurrently. If all items take equally long, it is one, whose rows stay in the
// L2. Otherwise the longest items of several heads start first: enough heads to fill the device, more if the L2 fits.
int heads_at_a_time(const AttentionProblem& p, const Work& work, const DeviceNumbers& device) {
  constexpr double share_of_l2 = 0.35;
  if (work.longest == work.shortest) return 1;
  const double bytes = 8.0 * static_cast<double>(p.rows * p.width * (p.heads / p.key_heads));  // q, dout, f32 sums
  const double room = share_of_l2 * static_cast<double>(device.l2_bytes) / bytes;
  const std::int64_t filling = up(device.multiprocessors, work.items);
  const std::int64_t heads = p.outer * p.key_heads,
                     most = std::clamp<std::int64_t>(std::max(static_cast<std::int64_t>(room), filling), 1, heads);
  // From half of that number on, the one that leaves the fewest free places in the last round.
  const auto missing = [&](std::int64_t width) { return up(heads, width) * width - heads; };
  std::int64_t best = most;
  for (std::int64_t width = most; 2 * width > most; --width)
    if (missing(width) * best < missing(best) * width) best = width;
  return static_cast<int>(best);
}

std::optional<std::string> refused_layout(const char* name, const HeadsLayout& x, const AttentionProblem& p) {
  AttentionProblem as_q = p;
  as_q.q = as_q.o = x;
  if (auto why = cuda::refuse(as_q)) return fmt::format("{}, where q means {}", *why, name);
  return std::nullopt;
}

}  // namespace

SeenKeys seen_keys(const AttentionProblem& p) {
  if (p.low > p.high) return {};
  return {std::max<std::int64_t>(0, p.low), std::min(p.keys, p.rows + p.high)};
}

std::optional<std::string> refuse_what_differs(const AttentionProblem& p) {
  if (p.lengths || p.packed)
    return "expected sequences of one length in attention's gradients, found a length for each: mask the scores "
           "instead";
  if (p.pages) return "expected contiguous keys and values in attention's gradients, found pages";
  return std::nullopt;
}

namespace cuda {

std::optional<std::string> refuse(const AttentionBackwardProblem& x) {
  const AttentionProblem& p = x.forward;
  if (auto why = refuse_what_differs(p)) return why;
  if (auto why = cuda::refuse(p)) return why;
  if (p.cap != 0) return fmt::format("expected scores that are not capped, found a cap of {}", p.cap);
  constexpr std::int64_t most = 65535;  // CUDA's limit for the second and third dimension of a grid
  if (p.heads > most || p.outer > most)
    return fmt::format("expected heads per group and groups of at most {}, found {} heads in {} groups", most,
                       p.heads, p.outer);
  if (!p.walks) return "expected a mask that moves with the rows, found the same keys for all rows";
  for (const auto& [name, layout] : {std::pair{"the gradient of o", x.dout}, std::pair{"dq", x.dq}})
    if (auto why = refused_layout(name, layout, p)) return why;
  AttentionProblem of_keys = p;
  of_keys.heads = p.key_heads;
  of_keys.rows = p.keys;
  for (const auto& [name, layout] : {std::pair{"dk", x.dk}, std::pair{"dv", x.dv}})
    if (auto why = refused_layout(name, layout, of_keys)) return why;
  return std::nullopt;
}

std::string backward_name_of(int config) {
  const AttentionBackwardConfig& c = attention_backward_menu[static_cast<std::size_t>(config)];
  return fmt::format("sm90_attention_backward_{}x{}x{}", c.m, c.q, c.d);
}

std::optional<int> backward_config_named(std::string_view name) {
  for (int i = 0; i < attention_backward_configs(); ++i)
    if (backward_name_of(i) == name) return i;
  return std::nullopt;
}
int attention_backward_configs() { return static_cast<int>(attention_backward_menu.size()); }
std::int64_t rows_of_a_step(int config) { return attention_backward_menu[static_cast<std::size_t>(config)].q; }

AttentionBackwardPlan choose(const AttentionBackwardProblem& x, const DeviceNumbers& device) {
  const AttentionProblem& p = x.forward;
  AttentionBackwardPlan out;
  while (attention_backward_menu[static_cast<std::size_t>(out.config)].d < p.width) ++out.config;
  const AttentionBackwardConfig& c = attention_backward_menu[static_cast<std::size_t>(out.config)];
  const Work work = work_of(p, c);
  const std::int64_t matrices = p.outer * p.key_heads;
  out.tiles = up(p.rows, c.q);
  out.items = matrices * work.items;
  out.steps = matrices * work.all;
  if (work.items > 0) out.width = heads_at_a_time(p, work, device);
  const std::int64_t all_tiles = p.outer * p.heads * out.tiles;
  out.sums_bytes = in_lines(all_tiles * c.q * c.d * 4);
  out.numbers_bytes = in_lines(all_tiles * 2 * c.q * 4);
  out.turns_bytes = x.ordered ? in_lines(all_tiles * c.consumers * 4) : 0;
  out.workspace_bytes = out.sums_bytes + out.numbers_bytes + out.turns_bytes;
  const KernelNumbers& n = kernel_numbers();
  const double step = 5.0 * c.m * c.q * c.d / (n.multiplies * n.attention_backward_multiplies);
  const double item = n.attention_item;
  const double longest = item + static_cast<double>(work.longest) * step;
  const double all = static_cast<double>(out.items) * item + static_cast<double>(out.steps) * step;
  const double cycles = out.items <= device.multiprocessors ? longest : all / device.multiprocessors + longest / 2;
  // The passes around the kernel read o and dO, write and read the sums, and write dq.
  const double row_bytes = static_cast<double>(p.outer * p.heads * p.rows * p.width);
  const double passes = 2 * device.launch_s + row_bytes * (3.0 * bits(p.dtype) / 8 + 8) / device.memory_bytes_per_s;
  out.predicted_s =
      device.launch_s + passes + std::max(cycles / device.busy_clock_hz, traffic(x) / device.memory_bytes_per_s);
  return out;
}

}  // namespace cuda

double flops(const AttentionBackwardProblem& x) { return 2.5 * flops(x.forward); }
double traffic(const AttentionBackwardProblem& x) {
  const AttentionProblem& p = x.forward;
  const double row_bytes = static_cast<double>(p.outer * p.width * (bits(p.dtype) / 8));
  return 4 * row_bytes * static_cast<double>(p.heads * p.rows + p.key_heads * p.keys);
}

Result<Forecast> forecast(const AttentionBackwardProblem& x, const DeviceNumbers& device) {
  if (const auto why = cuda::refuse(x)) return input_error(*why);
  const cuda::AttentionBackwardPlan plan = cuda::choose(x, device);
  const AttentionBackwardConfig& c = attention_backward_menu[static_cast<std::size_t>(plan.config)];
  Forecast out;
  out.leads = true;
  out.plan.kernel = cuda::backward_name_of(plan.config);
  out.plan.tile_m = c.m;
  out.plan.tile_n = c.q;
  out.plan.tile_k = c.d;
  out.plan.stages = c.stages;
  out.plan.waves = up(plan.items, device.multiprocessors);
  out.seconds = plan.predicted_s;
  out.spread = spread_on(device, "attention_backward");
  const double step_bytes = 2.0 * c.q * static_cast<double>(x.forward.width) * (bits(x.forward.dtype) / 8);
  const MovedBytes moved{static_cast<std::int64_t>(static_cast<double>(plan.steps) * step_bytes),
                         static_cast<std::int64_t>(traffic(x))};
  out.moved = [moved] { return moved; };
  return out;
}

}  // namespace ridge::ops

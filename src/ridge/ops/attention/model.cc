#include "ridge/ops/attention/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/ops/attention/config.h"
#include "ridge/ops/fitted.h"

namespace ridge::ops {
namespace {

constexpr std::int64_t most_items = std::int64_t{1} << 30, aligned_elements = 8;

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

// Keys first … end - 1 are all that rows from `row` on may see.
std::int64_t first_key(const AttentionProblem& p, std::int64_t row) { return std::max<std::int64_t>(0, row + p.low); }
std::int64_t end_key(const AttentionProblem& p, std::int64_t last_row) {
  return std::min(p.keys, last_row + p.high + 1);
}

// Of the item that begins at `row`, as the kernel's text counts them (attention.h).
std::int64_t steps_of(const AttentionProblem& p, const AttentionConfig& c, std::int64_t row) {
  const std::int64_t first = first_key(p, row) / c.kv, end = end_key(p, row + c.m - 1);
  return end > first * c.kv ? up(end, c.kv) - first : 1;
}

double step_cycles(const AttentionConfig& c) {
  constexpr double exponentials_a_cycle = 16;
  const KernelNumbers& n = kernel_numbers();
  const double products = 2.0 * c.m * c.kv * c.d / n.multiplies;
  return products / n.attention_multiplies + n.attention_exponentials * c.m * c.kv / exponentials_a_cycle;
}

cuda::AttentionPlan planned(const AttentionProblem& p, int config, const DeviceNumbers& device) {
  const AttentionConfig& c = attention_menu[static_cast<std::size_t>(config)];
  cuda::AttentionPlan out{.config = config};
  std::int64_t steps = 0, longest = 0;
  for (std::int64_t row = 0; row < p.rows; row += c.m) {
    const std::int64_t here = steps_of(p, c, row);
    steps += here;
    longest = std::max(longest, here);
  }
  const std::int64_t matrices = p.outer * p.heads;
  out.items = matrices * up(p.rows, c.m);
  out.steps = matrices * steps;
  const double shared_keys = 4.0 * static_cast<double>(p.keys * p.width * p.key_heads) / static_cast<double>(p.heads);
  const double held = 0.6 * static_cast<double>(device.l2_bytes) / shared_keys;
  out.width = static_cast<int>(std::clamp(held, 1.0, static_cast<double>(matrices)));
  const double item = kernel_numbers().attention_item, step = step_cycles(c);
  const double longest_cycles = item + static_cast<double>(longest) * step;
  const double all = static_cast<double>(out.items) * item + static_cast<double>(out.steps) * step;
  const double cycles =
      out.items <= device.multiprocessors ? longest_cycles : all / device.multiprocessors + longest_cycles / 2;
  out.predicted_s = device.launch_s + std::max(cycles / device.busy_clock_hz, traffic(p) / device.memory_bytes_per_s);
  return out;
}

std::optional<std::string> refused_layout(const char* name, const HeadsLayout& x, const AttentionProblem& p,
                                          std::int64_t heads, std::int64_t rows) {
  if ((p.outer > 1 && x.outer == 0) || (heads > 1 && x.head == 0))
    return fmt::format("{}'s heads lie in one place: expected strides above 0, found {} and {} for {} x {} heads", name,
                       x.outer, x.head, p.outer, heads);
  if (x.row < p.width && rows > 1)
    return fmt::format("{}'s rows overlap: expected a row stride of at least {}, found {}", name, p.width, x.row);
  for (const std::int64_t stride : {x.outer, x.head, x.row})
    if (stride < 0 || stride % aligned_elements != 0)
      return fmt::format("{} does not lie in whole 16 bytes: expected strides x{} elements, found {}, {} and {}", name,
                         aligned_elements, x.outer, x.head, x.row);
  return std::nullopt;
}

}  // namespace

namespace cuda {

std::optional<std::string> refuse(const AttentionProblem& p) {
  if (p.dtype != DType::bf16 && p.dtype != DType::f16)
    return fmt::format("expected bf16 or f16, found {}", name(p.dtype));
  if (p.outer < 1 || p.heads < 1 || p.key_heads < 1 || p.rows < 1 || p.keys < 1 || p.heads % p.key_heads != 0)
    return fmt::format("expected sizes of at least 1 and heads x{}, found {} x {} heads, {} rows and {} keys",
                       p.key_heads, p.outer, p.heads, p.rows, p.keys);
  const int widest = attention_menu.back().d;
  if (p.width < 1 || p.width > widest || p.width % aligned_elements != 0)
    return fmt::format("expected heads of 8 … {} elements, a multiple of {}, found {}", widest, aligned_elements,
                       p.width);
  if (!(p.scale > 0) || !std::isfinite(p.scale))
    return fmt::format("expected scores times a number above 0, found {}", p.scale);
  if (p.rows >= AttentionProblem::far / 2 || p.keys >= AttentionProblem::far / 2 ||
      p.outer * p.heads > most_items / up(p.rows, 64))
    return fmt::format("expected fewer than 2^29 rows and keys and 2^30 tiles, found {} and {} of {} heads", p.rows,
                       p.keys, p.outer * p.heads);
  if (p.low < -AttentionProblem::far || p.high > AttentionProblem::far || p.low > AttentionProblem::far ||
      p.high < -AttentionProblem::far)
    return fmt::format("expected a band within 2^30 of the diagonal, found {} … {}", p.low, p.high);
  if (auto why = refused_layout("q", p.q, p, p.heads, p.rows)) return why;
  if (auto why = refused_layout("k", p.k, p, p.key_heads, p.keys)) return why;
  if (auto why = refused_layout("v", p.v, p, p.key_heads, p.keys)) return why;
  return refused_layout("o", p.o, p, p.heads, p.rows);
}

AttentionPlan choose(const AttentionProblem& p, const DeviceNumbers& device) {
  std::optional<AttentionPlan> best;
  int least = attention_menu.back().d;
  for (const AttentionConfig& c : attention_menu)
    if (c.d >= p.width) least = std::min(least, c.d);
  for (std::size_t i = 0; i < attention_menu.size(); ++i) {
    if (attention_menu[i].d != least) continue;
    const AttentionPlan plan = planned(p, static_cast<int>(i), device);
    if (!best || plan.predicted_s < best->predicted_s) best = plan;
  }
  return *best;
}

}  // namespace cuda

std::optional<std::string> refuse(const AttentionProblem&) { return "no kernel of a CPU does attention in one piece"; }

double flops(const AttentionProblem& p) {
  double pairs = 0;
  for (std::int64_t row = 0; row < p.rows; ++row)
    pairs += static_cast<double>(std::max<std::int64_t>(0, end_key(p, row) - first_key(p, row)));
  return 4.0 * pairs * static_cast<double>(p.outer * p.heads * p.width);
}
double traffic(const AttentionProblem& p) {
  const double row_bytes = static_cast<double>(p.outer * p.width * (bits(p.dtype) / 8));
  return 2 * row_bytes * static_cast<double>(p.heads * p.rows + p.key_heads * p.keys);
}

Result<Forecast> forecast(const AttentionProblem& p, const DeviceNumbers& device) {
  if (const auto why = cuda::refuse(p)) return input_error(*why);
  const cuda::AttentionPlan plan = cuda::choose(p, device);
  const AttentionConfig& c = attention_menu[static_cast<std::size_t>(plan.config)];
  Forecast out;
  out.leads = true;
  out.plan.kernel = fmt::format("sm90_attention_{}x{}x{}", c.m, c.kv, c.d);
  out.plan.tile_m = c.m;
  out.plan.tile_n = c.kv;
  out.plan.tile_k = c.d;
  out.plan.stages = c.stages;
  out.plan.waves = up(plan.items, device.multiprocessors);
  out.seconds = plan.predicted_s;
  out.spread = spread_on(device, "attention");
  const double step_bytes = 2.0 * c.kv * static_cast<double>(p.width) * (bits(p.dtype) / 8);
  out.traffic_bytes = static_cast<std::int64_t>(static_cast<double>(plan.steps) * step_bytes);
  out.memory_bytes = static_cast<std::int64_t>(traffic(p));
  return out;
}
CpuForecast cpu_forecast(const AttentionProblem&, int) { return {"attention"}; }

}  // namespace ridge::ops

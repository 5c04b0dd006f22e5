#include "ridge/ops/attention/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ridge/device/workspace.h"
#include "ridge/ops/attention/config.h"
#include "ridge/ops/attention/cpu.h"
#include "ridge/ops/attention/layouts.h"
#include "ridge/ops/attention/mask.h"
#include "ridge/ops/fitted.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

constexpr int attention_widest = std::max_element(attention_menu.begin(), attention_menu.end(),
                                                  [](const auto& a, const auto& b) { return a.d < b.d; }) -> d;
constexpr std::int64_t most_items = std::int64_t{1} << 30, aligned_elements = 8;

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

// Rows from `row` on see no key before `first_key`; rows up to `last_row` see no key from `end_key` on.
std::int64_t first_key(const AttentionProblem& p, std::int64_t row) {
  return std::max<std::int64_t>(0, (p.walks ? row : 0) + p.low);
}
std::int64_t end_key(const AttentionProblem& p, std::int64_t last_row) {
  return std::min(p.keys, (p.walks ? last_row : 0) + p.high + 1);
}

// Returns the number of steps of the item that begins at `row`; must agree with the kernel (attention.h).
std::int64_t steps_of(const AttentionProblem& p, const AttentionConfig& c, std::int64_t row, std::int64_t rows) {
  const std::int64_t first = first_key(p, row) / c.kv, end = end_key(p, row + rows - 1);
  return end > first * c.kv ? up(end, c.kv) - first : 1;
}

double step_cycles(const AttentionConfig& c) {
  const KernelNumbers& n = kernel_numbers();
  const double products = 2.0 * c.m * c.kv * c.d / n.multiplies;
  const double shown = c.consumers == 1 ? 1 : n.attention_exponentials;  // a single warpgroup overlaps none
  return products / n.attention_multiplies + shown * c.m * c.kv / exponentials_a_cycle;
}

struct Work {  // Numbers of steps: of all items, and of the longest item
  std::int64_t all = 0, longest = 0;
};
Work work_of(const AttentionProblem& p, const AttentionConfig& c, int group) {
  Work out;
  const std::int64_t rows = c.m / group;
  for (std::int64_t row = 0; row < p.rows; row += rows) {
    const std::int64_t here = steps_of(p, c, row, rows);
    out.all += here;
    out.longest = std::max(out.longest, here);
  }
  out.all *= p.outer * p.heads / group;
  return out;
}
std::int64_t tiles_of(const AttentionProblem& p, const AttentionConfig& c, int group) {
  return p.outer * p.heads / group * up(p.rows, c.m / group);
}

// Returns the number of heads that run concurrently. If all items take equally long, it is one: the blocks then read
// the keys of a head from memory once. Otherwise the longest items of several heads start first: at most as many heads
// as the L2 holds and at least half of that, whichever number leaves the fewest free places in the last round.
int heads_at_a_time(const AttentionProblem& p, int group, bool are_even, const DeviceNumbers& device) {
  constexpr double share_of_l2 = 0.35;
  if (are_even) return 1;
  const double keys = 4.0 * static_cast<double>(p.keys * p.width * p.key_heads * group) / static_cast<double>(p.heads);
  const double room = share_of_l2 * static_cast<double>(device.l2_bytes) / keys;
  const auto heads = p.outer * p.heads / group;
  const auto most = static_cast<std::int64_t>(std::clamp(room, 1.0, static_cast<double>(heads)));
  const auto missing = [&](std::int64_t width) { return up(heads, width) * width - heads; };  // In the last round
  std::int64_t best = most;
  for (std::int64_t width = most; 2 * width > most; --width)
    if (missing(width) * best < missing(best) * width) best = width;
  return static_cast<int>(best);
}

// Returns the number of floats of an item's state (attention.h).
std::int64_t state_floats(const AttentionConfig& c) { return std::int64_t{c.m} * c.d + 4 * 128; }

// Returns the number of splits of the keys if there are fewer tiles than multiprocessors, so that each multiprocessor
// gets one item. A second item per multiprocessor would start only, loads included, when the first ends.
std::int64_t filling_parts(const AttentionProblem& p, const AttentionConfig& c, int group,
                           const DeviceNumbers& device) {
  const std::int64_t tiles = tiles_of(p, c, group), longest = work_of(p, c, group).longest;
  const std::int64_t counters = (tiles + 1) * static_cast<std::int64_t>(sizeof(int));
  if (c.consumers > 1 || counters > std::int64_t{cuda::counter_bytes}) return 1;  // See tile/step_ring.h
  const std::int64_t parts = std::min(device.multiprocessors / tiles, longest);
  const bool has_room = tiles * parts * state_floats(c) * 4 <= static_cast<std::int64_t>(plan_workspace_bytes / 4);
  return parts > 1 && has_room ? parts : 1;
}

std::optional<std::string> refused_alignment(const char* name, const HeadsLayout& x) {
  for (const std::int64_t stride : {x.outer, x.head, x.row})
    if (stride < 0 || stride % aligned_elements != 0)
      return fmt::format("{} is not 16-byte aligned: expected strides in multiples of {} elements, found {}, {} and {}",
                         name, aligned_elements, x.outer, x.head, x.row);
  return std::nullopt;
}

std::optional<std::string> refused_lengths(const AttentionProblem& p, const AttentionProblem::Lengths& moves) {
  constexpr std::int64_t most = AttentionProblem::far / 2;
  const auto is_near = [](std::int64_t x) { return x >= -most && x <= most; };
  if ((moves.limit != AttentionProblem::far && !is_near(moves.limit)) || (moves.low && !is_near(p.low)) ||
      (moves.high && !is_near(p.high)))
    return fmt::format("expected a band within 2^29 of a sequence's length, found {} … {} and {}", p.low, p.high,
                       moves.limit);
  return std::nullopt;
}

std::optional<std::string> refused_places(const AttentionProblem& p) {
  if (p.packed && (!p.lengths || p.lengths->limit > 0))
    return fmt::format("packed sequences see only their own keys: expected lengths whose limit is at most 0, found {}",
                       p.lengths ? std::to_string(p.lengths->limit) : "no lengths");
  if (p.packed && (p.packed->rows < p.rows || (!p.pages && p.packed->keys < p.keys)))
    return fmt::format("the longest sequence has {} rows and {} keys: expected at least these totals, found {} and {}",
                       p.rows, p.keys, p.packed->rows, p.packed->keys);
  if (p.pages && (p.pages->rows < 1 || p.pages->count < 1 || p.keys % p.pages->rows != 0))
    return fmt::format("expected keys in a multiple of the page size, found {} keys in {} pages of {}", p.keys,
                       p.pages->count, p.pages->rows);
  return std::nullopt;
}

std::optional<std::string> refused_sizes(const AttentionProblem& p) {
  if (p.outer < 1 || p.heads < 1 || p.key_heads < 1 || p.rows < 1 || p.keys < 1 || p.heads % p.key_heads != 0)
    return fmt::format(
        "expected sizes of at least 1 and heads in multiples of {}, found {} x {} heads, {} rows and {} keys",
        p.key_heads, p.outer, p.heads, p.rows, p.keys);
  if (!(p.scale > 0) || !std::isfinite(p.scale))
    return fmt::format("expected a scale above 0, found {}", p.scale);
  if (!(p.cap >= 0) || !std::isfinite(p.cap))
    return fmt::format("expected a score cap above 0, or 0 for none, found {}", p.cap);
  if (p.rows >= AttentionProblem::far / 2 || p.keys >= AttentionProblem::far / 2 ||
      p.outer * p.heads > most_items / up(p.rows, 16))
    return fmt::format("expected fewer than 2^29 rows and keys and 2^30 tiles, found {} and {} of {} heads", p.rows,
                       p.keys, p.outer * p.heads);
  if (p.low < -AttentionProblem::far || p.high > AttentionProblem::far || p.low > AttentionProblem::far ||
      p.high < -AttentionProblem::far)
    return fmt::format("expected a band within 2^30 of the diagonal, found {} … {}", p.low, p.high);
  if (p.lengths)
    if (auto why = refused_lengths(p, *p.lengths)) return why;
  return refused_places(p);
}

// Checks an operand's layout: pages and packed sequences replace the groups of heads.
std::optional<std::string> refused_operand(const char* name, const HeadsLayout& x, const AttentionProblem& p,
                                           bool of_rows) {
  AttentionProblem lies = p;
  std::int64_t rows = of_rows ? p.rows : p.keys;
  if (p.pages && !of_rows) {
    lies.outer = p.pages->count;
    rows = p.pages->rows;
  } else if (p.packed) {
    lies.outer = 1;
    rows = of_rows ? p.packed->rows : p.packed->keys;
  }
  return refused_layout(name, x, lies, of_rows ? p.heads : p.key_heads, rows);
}

}  // namespace

namespace cuda {

std::optional<std::string> refuse(const AttentionProblem& p) {
  if (p.dtype != DType::bf16 && p.dtype != DType::f16)
    return fmt::format("expected bf16 or f16, found {}", name(p.dtype));
  if (auto why = refused_sizes(p)) return why;
  const int widest = attention_widest;
  if (p.width < 1 || p.width > widest || p.width % aligned_elements != 0)
    return fmt::format("expected heads of 8 … {} elements, a multiple of {}, found {}", widest, aligned_elements,
                       p.width);
  if (p.pages && p.pages->rows % aligned_elements != 0)
    return fmt::format("expected pages whose rows are a multiple of {}, found {}", aligned_elements, p.pages->rows);
  const struct {
    const char* name;
    const HeadsLayout& layout;
    bool of_rows;
  } operands[] = {{"q", p.q, true}, {"k", p.k, false}, {"v", p.v, false}, {"o", p.o, true}};
  for (const auto& x : operands) {
    if (auto why = refused_operand(x.name, x.layout, p, x.of_rows)) return why;
    if (auto why = refused_alignment(x.name, x.layout)) return why;
  }
  return std::nullopt;
}

AttentionProblem folded(const AttentionProblem& p) {
  const std::int64_t shared = p.heads / p.key_heads;
  if (p.rows > 1 || shared == 1 || differ(p)) return p;
  AttentionProblem out = p;
  out.heads = p.key_heads;
  out.rows = shared;
  out.walks = false;
  out.q = {p.q.outer, p.q.head * shared, p.q.head};
  out.o = {p.o.outer, p.o.head * shared, p.o.head};
  return out;
}

std::string name_of(int config) {
  const AttentionConfig& c = attention_menu[static_cast<std::size_t>(config)];
  return fmt::format("sm90_attention_{}x{}x{}", c.m, c.kv, c.d);
}
int attention_configs() { return static_cast<int>(attention_menu.size()); }
std::int64_t keys_of_a_step(int config) { return attention_menu[static_cast<std::size_t>(config)].kv; }
std::optional<int> config_named(std::string_view name) {
  for (int i = 0; i < static_cast<int>(attention_menu.size()); ++i)
    if (name_of(i) == name) return i;
  return std::nullopt;
}

AttentionPlan planned(const AttentionProblem& problem, AttentionCut cut, const DeviceNumbers& device) {
  const AttentionConfig& c = attention_menu[static_cast<std::size_t>(cut.config)];
  const AttentionProblem p = of_length(problem, problem.keys);
  const Work work = work_of(p, c, cut.group);
  const std::int64_t tiles = tiles_of(p, c, cut.group), parts = cut.parts;
  AttentionPlan out{.config = cut.config, .group = cut.group, .parts = static_cast<int>(parts)};
  out.is_ragged = differ(problem) || cut.group > 1;
  out.items = tiles * parts;
  out.steps = work.all;
  if (parts > 1) out.workspace_bytes = static_cast<std::size_t>(out.items * state_floats(c)) * sizeof(float);
  out.width = heads_at_a_time(p, cut.group, work.longest * tiles == work.all, device);
  const KernelNumbers& n = kernel_numbers();
  // Splits start and end at the same time; their start-up overlaps no loads.
  const double item = parts > 1 ? 0 : n.attention_item;
  const double parted =
      parts > 1 ? n.attention_item + n.attention_merge + static_cast<double>(parts) * n.attention_part : 0;
  const double longest_cycles = item + static_cast<double>(up(work.longest, parts)) * step_cycles(c);
  const double all = static_cast<double>(out.items) * item + static_cast<double>(out.steps) * step_cycles(c);
  const double cycles =
      out.items <= device.multiprocessors ? longest_cycles : all / device.multiprocessors + longest_cycles / 2;
  // A block has at most one ring of loads in flight, so few blocks saturate neither memory nor the L2, from which each
  // step reads its keys and values.
  const double busy = std::min(1.0, static_cast<double>(out.items) / device.multiprocessors);
  const double read = 2.0 * static_cast<double>(out.steps * c.kv * c.d * bits(p.dtype) / 8);
  out.predicted_s = device.launch_s + parted / device.busy_clock_hz +
                    std::max({cycles / device.busy_clock_hz, traffic(p) / (device.memory_bytes_per_s * busy),
                              read / (n.attention_l2 * device.l2_bytes_per_s * busy)});
  return out;
}

// Returns how many heads that share keys also share a tile, as lines of each row; 1 if a tile cannot hold their rows.
static int shared_lines(const AttentionProblem& p, const AttentionConfig& c) {
  const std::int64_t shared = p.heads / p.key_heads;
  return c.consumers == 1 && shared > 1 && !p.packed && p.rows * shared <= c.m ? static_cast<int>(shared) : 1;
}

AttentionPlan choose(const AttentionProblem& problem, const DeviceNumbers& device) {
  const AttentionProblem p = folded(problem);
  std::optional<AttentionPlan> best;
  int least = attention_widest;
  for (const AttentionConfig& c : attention_menu)
    if (c.d >= p.width) least = std::min(least, c.d);
  for (std::size_t i = 0; i < attention_menu.size(); ++i) {
    const AttentionConfig& c = attention_menu[i];
    if (c.d != least) continue;
    for (const int group : std::set{1, shared_lines(p, c)})
      for (const std::int64_t parts :
           std::set{std::int64_t{1}, filling_parts(of_length(p, p.keys), c, group, device)}) {
        const AttentionPlan plan = planned(p, {static_cast<int>(i), parts, group}, device);
        if (!best || plan.predicted_s < best->predicted_s) best = plan;
      }
  }
  return *best;
}

}  // namespace cuda

std::optional<std::string> refuse(const AttentionProblem& p) {
  if (auto refusal = tile::cpu::isa_refusal()) return refusal;
  if (p.dtype != DType::f32 && p.dtype != DType::bf16 && p.dtype != DType::f16)
    return fmt::format("expected f32, bf16 or f16, found {}", name(p.dtype));
  if (auto why = refused_sizes(p)) return why;
  if (p.width < 1 || p.width > cpu_attention_width)
    return fmt::format("expected heads of 1 … {} elements, found {}", cpu_attention_width, p.width);
  return refused_operand("o", p.o, p, true);
}

AttentionProblem of_length(const AttentionProblem& p, std::int64_t length) {
  if (!p.lengths) return p;
  AttentionProblem out = p;
  const AttentionProblem::Lengths& moves = *p.lengths;
  if (moves.low) out.low += length;
  if (moves.high) out.high += length;
  out.keys = std::clamp<std::int64_t>(length + moves_of(p).limit, 0, p.keys);
  out.lengths.reset();
  return out;
}

double flops(const AttentionProblem& problem) {
  const AttentionProblem p = of_length(problem, problem.keys);
  double pairs = 0;
  for (std::int64_t row = 0; row < p.rows; ++row)
    pairs += static_cast<double>(std::max<std::int64_t>(0, end_key(p, row) - first_key(p, row)));
  return 4.0 * pairs * static_cast<double>(p.outer * p.heads * p.width);
}
double traffic(const AttentionProblem& p) {
  const double row_bytes = static_cast<double>(p.width * (bits(p.dtype) / 8));
  const std::int64_t rows = p.packed ? p.packed->rows : p.outer * p.rows;
  const std::int64_t keys = p.packed && !p.pages ? p.packed->keys : p.outer * p.keys;
  return 2 * row_bytes * static_cast<double>(p.heads * rows + p.key_heads * keys);
}

Result<Forecast> forecast(const AttentionProblem& p, const DeviceNumbers& device) {
  if (const auto why = cuda::refuse(p)) return input_error(*why);
  const cuda::AttentionPlan plan = cuda::choose(p, device);
  const AttentionConfig& c = attention_menu[static_cast<std::size_t>(plan.config)];
  Forecast out;
  out.leads = true;
  out.plan.kernel = cuda::name_of(plan.config);
  out.plan.tile_m = c.m;
  out.plan.tile_n = c.kv;
  out.plan.tile_k = c.d;
  out.plan.stages = c.stages;
  out.plan.waves = up(plan.items, device.multiprocessors);
  if (plan.parts > 1) {
    out.plan.split = plan.parts;
    out.plan.split_text = {"split_keys", "the keys are split, and the splits are merged in a fixed order"};
  }
  out.seconds = plan.predicted_s;
  out.spread = spread_on(device, "attention");
  const double step_bytes = 2.0 * c.kv * static_cast<double>(p.width) * (bits(p.dtype) / 8);
  const MovedBytes moved{static_cast<std::int64_t>(static_cast<double>(plan.steps) * step_bytes),
                         static_cast<std::int64_t>(traffic(p))};
  out.moved = [moved] { return moved; };
  return out;
}
CpuForecast cpu_forecast(const AttentionProblem& p, int) {
  return {.kernel = "attention", .vector_flops = flops(p), .pairs = goes_in_pairs(p.dtype)};
}

}  // namespace ridge::ops

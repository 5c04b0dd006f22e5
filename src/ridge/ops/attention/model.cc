#include "ridge/ops/attention/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ridge/base/ceil_div.h"
#include "ridge/base/operand_type.h"
#include "ridge/device/workspace.h"
#include "ridge/ops/attention/config.h"
#include "ridge/ops/attention/cpu.h"
#include "ridge/ops/attention/mask.h"
#include "ridge/ops/fitted.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

constexpr int max_head_size = std::max_element(attention_kernel_configs.begin(), attention_kernel_configs.end(),
                                               [](const auto& a, const auto& b) { return a.d < b.d; }) -> d;
constexpr std::int64_t max_items = std::int64_t{1} << 30, alignment_elements = 16 / OperandType<Bf16>::bytes;

// Rows at or after `row` see no key before first_key(p, row); rows up to `last_row` see no key from end_key() on.
std::int64_t first_key(const AttentionProblem& p, std::int64_t row) {
  return std::max<std::int64_t>(0, (p.moves_with_rows ? row : 0) + p.low);
}
std::int64_t end_key(const AttentionProblem& p, std::int64_t last_row) {
  return std::min(p.keys, (p.moves_with_rows ? last_row : 0) + p.high + 1);
}

// Returns the number of steps of the item that begins at `row`; must agree with the kernel (attention.h).
std::int64_t count_item_steps(const AttentionProblem& p, const AttentionConfig& c, std::int64_t row,
                              std::int64_t rows) {
  const std::int64_t first = first_key(p, row) / c.kv, end = end_key(p, row + rows - 1);
  return end > first * c.kv ? ceil_div(end, c.kv) - first : 1;
}

double step_cycles(const AttentionConfig& c) {
  const KernelConstants& n = kernel_constants();
  const double product_cycles = 2.0 * c.m * c.kv * c.d / n.multiply_adds_per_cycle;
  // With a single warpgroup no exponentials overlap products.
  const double exposed_fraction = c.consumers == 1 ? 1 : n.exposed_exponential_share;
  return product_cycles / n.attention_multiply_share + exposed_fraction * c.m * c.kv / exponentials_per_cycle;
}

struct AttentionStepCounts {  // Number of steps of all items and of the longest item
  std::int64_t total = 0, longest = 0;
};
AttentionStepCounts count_steps(const AttentionProblem& p, const AttentionConfig& c, int heads_per_tile) {
  AttentionStepCounts out;
  const std::int64_t rows = c.m / heads_per_tile;
  for (std::int64_t row = 0; row < p.rows; row += rows) {
    const std::int64_t item_steps = count_item_steps(p, c, row, rows);
    out.total += item_steps;
    out.longest = std::max(out.longest, item_steps);
  }
  out.total *= p.outer * p.heads / heads_per_tile;
  return out;
}
std::int64_t count_tiles(const AttentionProblem& p, const AttentionConfig& c, int heads_per_tile) {
  return p.outer * p.heads / heads_per_tile * ceil_div(p.rows, c.m / heads_per_tile);
}

// Returns the number of heads that run concurrently. If all items take equally long, it is 1, so that the blocks read
// the keys of a head from memory once. Otherwise the longest items of several heads start first. The number is between
// half and all of the heads whose keys fit in the L2, and leaves the fewest slots idle in the last round.
int choose_concurrent_heads(const AttentionProblem& p, int heads_per_tile, bool equal_items,
                            const DeviceNumbers& device) {
  constexpr double max_l2_fraction = 0.35;
  if (equal_items) return 1;
  const double key_bytes = 2.0 * operand_bytes(p.dtype) *
                           static_cast<double>(p.keys * p.width * p.key_heads * heads_per_tile) /
                           static_cast<double>(p.heads);
  const double heads_in_l2 = max_l2_fraction * static_cast<double>(device.l2_bytes) / key_bytes;
  const auto heads = p.outer * p.heads / heads_per_tile;
  const auto max_heads = static_cast<std::int64_t>(std::clamp(heads_in_l2, 1.0, static_cast<double>(heads)));
  const auto idle_heads = [&](std::int64_t width) {
    return ceil_div(heads, width) * width - heads;
  };  // In the last round
  std::int64_t best = max_heads;
  for (std::int64_t width = max_heads; 2 * width > max_heads; --width)
    if (idle_heads(width) * best < idle_heads(best) * width) best = width;
  return static_cast<int>(best);
}

// Returns the number of floats of an item's State (attention.h) in the workspace.
std::int64_t floats_per_state(const AttentionConfig& c) { return std::int64_t{c.m} * c.d + 4 * 128; }

// Returns into how many items the keys of a tile are split if there are fewer tiles than multiprocessors: as many as
// give each multiprocessor one item. A second item would not start, or load, before the first ends.
std::int64_t choose_key_splits(const AttentionProblem& p, const AttentionConfig& c, int heads_per_tile,
                               const DeviceNumbers& device) {
  const std::int64_t tiles = count_tiles(p, c, heads_per_tile), longest = count_steps(p, c, heads_per_tile).longest;
  const std::int64_t counters = (tiles + 1) * static_cast<std::int64_t>(sizeof(int));
  if (c.consumers > 1 || counters > std::int64_t{device::counter_bytes}) return 1;  // See tile/step_ring.h
  const std::int64_t key_splits = std::min(device.multiprocessors / tiles, longest);
  const bool fits_workspace =
      tiles * key_splits * floats_per_state(c) * 4 <= static_cast<std::int64_t>(plan_workspace_bytes / 4);
  return key_splits > 1 && fits_workspace ? key_splits : 1;
}

Reason validate_alignment(const char* name, const HeadsLayout& x) {
  for (const std::int64_t stride : {x.outer, x.head, x.row})
    if (stride < 0 || stride % alignment_elements != 0)
      return fmt::format("{} is not 16-byte aligned: expected strides in multiples of {} elements, found {}, {} and {}",
                         name, alignment_elements, x.outer, x.head, x.row);
  return {};
}

Reason validate_lengths(const AttentionProblem& p, const AttentionProblem::Lengths& lengths) {
  constexpr std::int64_t max_distance = AttentionProblem::unbounded / 2;
  const auto is_in_range = [](std::int64_t x) { return x >= -max_distance && x <= max_distance; };
  if ((lengths.length_offset != AttentionProblem::unbounded && !is_in_range(lengths.length_offset)) ||
      (lengths.low_from_length && !is_in_range(p.low)) || (lengths.high_from_length && !is_in_range(p.high)))
    return fmt::format("expected a band within 2^29 of a sequence's length, found {} … {} and {}", p.low, p.high,
                       lengths.length_offset);
  return {};
}

Reason validate_packing(const AttentionProblem& p) {
  if (p.packed && (!p.lengths || p.lengths->length_offset > 0))
    return fmt::format("packed sequences see only their own keys: expected lengths whose limit is at most 0, found {}",
                       p.lengths ? std::to_string(p.lengths->length_offset) : "no lengths");
  if (p.packed && (p.packed->rows < p.rows || (!p.pages && p.packed->keys < p.keys)))
    return fmt::format("the longest sequence has {} rows and {} keys: expected at least these totals, found {} and {}",
                       p.rows, p.keys, p.packed->rows, p.packed->keys);
  if (p.pages && (p.pages->rows < 1 || p.pages->count < 1 || p.keys % p.pages->rows != 0))
    return fmt::format("expected keys in a multiple of the page size, found {} keys in {} pages of {}", p.keys,
                       p.pages->count, p.pages->rows);
  return {};
}

Reason validate_sizes(const AttentionProblem& p) {
  if (p.outer < 1 || p.heads < 1 || p.key_heads < 1 || p.rows < 1 || p.keys < 1 || p.heads % p.key_heads != 0)
    return fmt::format(
        "expected sizes of at least 1 and heads in multiples of {}, found {} x {} heads, {} rows and {} keys",
        p.key_heads, p.outer, p.heads, p.rows, p.keys);
  if (!(p.scale > 0) || !std::isfinite(p.scale)) return fmt::format("expected a scale above 0, found {}", p.scale);
  if (!(p.cap >= 0) || !std::isfinite(p.cap))
    return fmt::format("expected a score cap above 0, or 0 for none, found {}", p.cap);
  if (p.rows >= AttentionProblem::unbounded / 2 || p.keys >= AttentionProblem::unbounded / 2 ||
      p.outer * p.heads > max_items / ceil_div(p.rows, 16))
    return fmt::format("expected fewer than 2^29 rows and keys and 2^30 tiles, found {} and {} of {} heads", p.rows,
                       p.keys, p.outer * p.heads);
  if (p.low < -AttentionProblem::unbounded || p.high > AttentionProblem::unbounded ||
      p.low > AttentionProblem::unbounded || p.high < -AttentionProblem::unbounded)
    return fmt::format("expected a band within 2^30 of the diagonal, found {} … {}", p.low, p.high);
  if (p.lengths)
    if (auto why = validate_lengths(p, *p.lengths)) return why;
  return validate_packing(p);
}

// Returns a reason if the elements of p.outer * `heads` heads of `rows` rows overlap in memory.
Reason validate_layout(const char* name, const HeadsLayout& x, const AttentionProblem& p, std::int64_t heads,
                       std::int64_t rows) {
  if ((p.outer > 1 && x.outer == 0) || (heads > 1 && x.head == 0))
    return fmt::format("{}'s heads overlap: expected strides above 0, found {} and {} for {} x {} heads", name, x.outer,
                       x.head, p.outer, heads);
  if (x.row < p.width && rows > 1)
    return fmt::format("{}'s rows overlap: expected a row stride of at least {}, found {}", name, p.width, x.row);
  return {};
}

// Checks an operand's layout: pages and packed sequences replace the groups of heads.
Reason validate_operand(const char* name, const HeadsLayout& x, const AttentionProblem& p, bool is_query_operand) {
  AttentionProblem stored = p;
  std::int64_t rows = is_query_operand ? p.rows : p.keys;
  if (p.pages && !is_query_operand) {
    stored.outer = p.pages->count;
    rows = p.pages->rows;
  } else if (p.packed) {
    stored.outer = 1;
    rows = is_query_operand ? p.packed->rows : p.packed->keys;
  }
  return validate_layout(name, x, stored, is_query_operand ? p.heads : p.key_heads, rows);
}

}  // namespace

namespace cuda {

Reason unsupported_reason(const AttentionProblem& p) {
  if (!SixteenBitFloats::contains(p.dtype))
    return fmt::format("expected {}, found {}", SixteenBitFloats::names(), dtype_name(p.dtype));
  if (auto why = validate_sizes(p)) return why;
  const int max_width = max_head_size;
  if (p.width < 1 || p.width > max_width || p.width % alignment_elements != 0)
    return fmt::format("expected heads of 8 … {} elements, a multiple of {}, found {}", max_width, alignment_elements,
                       p.width);
  if (p.pages && p.pages->rows % alignment_elements != 0)
    return fmt::format("expected pages whose rows are a multiple of {}, found {}", alignment_elements, p.pages->rows);
  const struct {
    const char* name;
    const HeadsLayout& layout;
    bool is_query_operand;
  } operands[] = {{"q", p.q, true}, {"k", p.k, false}, {"v", p.v, false}, {"o", p.o, true}};
  for (const auto& x : operands) {
    if (auto why = validate_operand(x.name, x.layout, p, x.is_query_operand)) return why;
    if (auto why = validate_alignment(x.name, x.layout)) return why;
  }
  return {};
}

AttentionProblem fold_heads(const AttentionProblem& p) {
  const std::int64_t heads_per_key_head = p.heads / p.key_heads;
  if (p.rows > 1 || heads_per_key_head == 1 || has_ragged_sequences(p)) return p;
  AttentionProblem out = p;
  out.heads = p.key_heads;
  out.rows = heads_per_key_head;
  out.moves_with_rows = false;
  out.q = {p.q.outer, p.q.head * heads_per_key_head, p.q.head};
  out.o = {p.o.outer, p.o.head * heads_per_key_head, p.o.head};
  return out;
}

std::string attention_config_name(int config) {
  const AttentionConfig& c = attention_kernel_configs[config];
  return fmt::format("sm90_attention_{}x{}x{}", c.m, c.kv, c.d);
}
int attention_config_count() { return static_cast<int>(attention_kernel_configs.size()); }
std::int64_t keys_per_step(int config) { return attention_kernel_configs[config].kv; }
std::optional<int> find_attention_config(std::string_view name) {
  for (int i = 0; i < static_cast<int>(attention_kernel_configs.size()); ++i)
    if (attention_config_name(i) == name) return i;
  return std::nullopt;
}

AttentionPlan make_plan(const AttentionProblem& problem, AttentionTiling tiling, const DeviceNumbers& device) {
  const AttentionConfig& c = attention_kernel_configs[tiling.config];
  const AttentionProblem p = with_length(problem, problem.keys);
  const AttentionStepCounts step_counts = count_steps(p, c, tiling.heads_per_tile);
  const std::int64_t tiles = count_tiles(p, c, tiling.heads_per_tile), key_splits = tiling.key_splits;
  AttentionPlan out{
      .config = tiling.config, .heads_per_tile = tiling.heads_per_tile, .key_splits = static_cast<int>(key_splits)};
  out.is_ragged = has_ragged_sequences(problem) || tiling.heads_per_tile > 1;
  out.items = tiles * key_splits;
  out.steps = step_counts.total;
  if (key_splits > 1) out.workspace_bytes = static_cast<std::size_t>(out.items * floats_per_state(c)) * sizeof(float);
  out.concurrent_heads =
      choose_concurrent_heads(p, tiling.heads_per_tile, step_counts.longest * tiles == step_counts.total, device);
  const KernelConstants& n = kernel_constants();
  // All splits start and end at the same time, so no other item's work overlaps their start-up.
  const double item_cycles = key_splits > 1 ? 0 : n.attention_item_cycles;
  const double split_cycles = key_splits > 1 ? n.attention_item_cycles + n.attention_merge_cycles +
                                                   static_cast<double>(key_splits) * n.attention_split_cycles
                                             : 0;
  const double longest_cycles =
      item_cycles + static_cast<double>(ceil_div(step_counts.longest, key_splits)) * step_cycles(c);
  const double total_cycles =
      static_cast<double>(out.items) * item_cycles + static_cast<double>(out.steps) * step_cycles(c);
  const double cycles = out.items <= device.multiprocessors
                            ? longest_cycles
                            : total_cycles / device.multiprocessors + n.attention_tail_share * longest_cycles;
  // A block has at most one ring of loads in flight, so few blocks saturate neither the memory nor the L2.
  const double busy_fraction = std::min(1.0, static_cast<double>(out.items) / device.multiprocessors);
  const double l2_bytes = 2.0 * static_cast<double>(out.steps * c.kv * c.d * dtype_bits(p.dtype) / 8);
  out.predicted_s =
      device.launch_s + split_cycles / device.busy_clock_hz +
      std::max({cycles / device.busy_clock_hz, traffic_bytes(p) / (device.memory_bytes_per_s * busy_fraction),
                l2_bytes / (n.attention_l2_share * device.l2_bytes_per_s * busy_fraction)});
  return out;
}

// Returns the number of heads that share keys and a tile: all heads of a key head if a tile holds their rows, else 1.
static int choose_heads_per_tile(const AttentionProblem& p, const AttentionConfig& c) {
  const std::int64_t heads_per_key_head = p.heads / p.key_heads;
  return c.consumers == 1 && heads_per_key_head > 1 && !p.packed && p.rows * heads_per_key_head <= c.m
             ? static_cast<int>(heads_per_key_head)
             : 1;
}

std::vector<AttentionPlan> list_plans(const AttentionProblem& problem, const DeviceNumbers& device) {
  const AttentionProblem p = fold_heads(problem);
  std::vector<AttentionPlan> out;
  int min_width = max_head_size;
  for (const AttentionConfig& c : attention_kernel_configs)
    if (c.d >= p.width) min_width = std::min(min_width, c.d);
  for (std::size_t i = 0; i < attention_kernel_configs.size(); ++i) {
    const AttentionConfig& c = attention_kernel_configs[i];
    if (c.d != min_width) continue;
    for (const int heads_per_tile : std::set{1, choose_heads_per_tile(p, c)})
      for (const std::int64_t key_splits :
           std::set{std::int64_t{1}, choose_key_splits(with_length(p, p.keys), c, heads_per_tile, device)})
        out.push_back(make_plan(p, {static_cast<int>(i), key_splits, heads_per_tile}, device));
  }
  return out;
}

AttentionPlan choose_plan(const AttentionProblem& problem, const DeviceNumbers& device) {
  const std::vector<AttentionPlan> all = list_plans(problem, device);
  return *std::ranges::min_element(all, {}, &AttentionPlan::predicted_s);
}

}  // namespace cuda

Reason unsupported_reason(const AttentionProblem& p) {
  if (auto refusal = pool::isa_override_error()) return refusal;
  if (!StoredFloats::contains(p.dtype))
    return fmt::format("expected {}, found {}", StoredFloats::names(), dtype_name(p.dtype));
  if (auto why = validate_sizes(p)) return why;
  if (p.width < 1 || p.width > max_cpu_head_size)
    return fmt::format("expected heads of 1 … {} elements, found {}", max_cpu_head_size, p.width);
  return validate_operand("o", p.o, p, true);
}

AttentionProblem with_length(const AttentionProblem& p, std::int64_t length) {
  if (!p.lengths) return p;
  AttentionProblem out = p;
  const AttentionProblem::Lengths& lengths = *p.lengths;
  if (lengths.low_from_length) out.low += length;
  if (lengths.high_from_length) out.high += length;
  out.keys = std::clamp<std::int64_t>(length + length_dependence_of(p).length_offset, 0, p.keys);
  out.lengths.reset();
  return out;
}

double flops(const AttentionProblem& problem) {
  const AttentionProblem p = with_length(problem, problem.keys);
  double pairs = 0;
  for (std::int64_t row = 0; row < p.rows; ++row)
    pairs += static_cast<double>(std::max<std::int64_t>(0, end_key(p, row) - first_key(p, row)));
  return 4.0 * pairs * static_cast<double>(p.outer * p.heads * p.width);
}
std::int64_t count_seen_keys(const AttentionProblem& problem) {
  if (problem.packed) return problem.keys;
  const AttentionProblem p = with_length(problem, problem.keys);
  return std::max<std::int64_t>(0, end_key(p, p.rows - 1) - first_key(p, 0));
}

double traffic_bytes(const AttentionProblem& p) {
  const double row_bytes = static_cast<double>(p.width * (dtype_bits(p.dtype) / 8));
  const std::int64_t rows = p.packed ? p.packed->rows : p.outer * p.rows;
  const std::int64_t keys = p.packed && !p.pages ? p.packed->keys : p.outer * count_seen_keys(p);
  return 2 * row_bytes * static_cast<double>(p.heads * rows + p.key_heads * keys);
}

Result<Forecast> forecast(const AttentionProblem& p, const DeviceNumbers& device) {
  if (const auto why = cuda::unsupported_reason(p)) return input_error(why.text());
  const cuda::AttentionPlan plan = cuda::choose_plan(p, device);
  const AttentionConfig& c = attention_kernel_configs[plan.config];
  Forecast out;
  out.is_main_kernel = true;
  out.plan.kernel = cuda::attention_config_name(plan.config);
  out.plan.tile_m = c.m;
  out.plan.tile_n = c.kv;
  out.plan.tile_k = c.d;
  out.plan.stages = c.stages;
  out.plan.waves = ceil_div(plan.items, device.multiprocessors);
  if (plan.key_splits > 1) {
    out.plan.split = plan.key_splits;
    out.plan.split_description = {"split_keys", "the keys are split, and the splits are merged in a fixed order"};
  }
  out.seconds = plan.predicted_s;
  out.spread = spread_on_device(device, "attention");
  const double step_bytes = 2.0 * c.kv * static_cast<double>(p.width) * (dtype_bits(p.dtype) / 8);
  const MovedBytes moved_bytes{static_cast<std::int64_t>(static_cast<double>(plan.steps) * step_bytes),
                               static_cast<std::int64_t>(traffic_bytes(p))};
  out.count_bytes = [moved_bytes] { return moved_bytes; };
  return out;
}
CpuForecast cpu_forecast(const AttentionProblem& p, int) {
  return {.kernel = "attention", .vector_flops = flops(p), .uses_bf16_pairs = multiplies_bf16_pairs(p.dtype)};
}

Reason unsupported_reason(const AttentionBackwardProblem& problem) {
  AttentionProblem p = problem.forward;
  if (auto why = validate_uniform_sequences(p)) return why;
  p.o = problem.dq;  // o is only read
  if (p.cap > 0) return fmt::format("expected scores without a cap in attention's gradients, found {}", p.cap);
  if (!p.moves_with_rows)
    return "expected a mask that moves with the rows in attention's gradients, found one band for all";
  if (auto why = validate_layout("dq", problem.dq, p, p.heads, p.rows)) return why;
  if (auto why = unsupported_reason(p)) return why;
  if (auto why = validate_layout("dk", problem.dk, p, p.key_heads, p.keys)) return why;
  return validate_layout("dv", problem.dv, p, p.key_heads, p.keys);
}

// Memory traffic also includes the partial sums of dq, which are written and read.
CpuForecast cpu_forecast(const AttentionBackwardProblem& p, int) {
  return {.kernel = "attention_backward", .vector_flops = flops(p)};
}

}  // namespace ridge::ops

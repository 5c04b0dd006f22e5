#include <cmath>

#include "ridge/ops/library/formula.h"

namespace ridge::ops {
namespace {

constexpr double keys_per_step = 128;
constexpr double reference_width = 128;

namespace prefill {

constexpr std::string_view columns[] = {"batch", "heads", "key_heads", "rows", "width"};
constexpr std::size_t group_columns[] = {1, 2, 4};
enum PrefillParameter { launch, compute, exponentials, item, width_power, memory, overlap, slowdown, packing };
constexpr LibraryParameter numbers[] = {
    {"library_prefill_launch_s", "s", 9e-6},        // Launch overhead
    {"library_prefill_compute", "1", 0.8},          // Fraction of the peak FLOP/s of the matrix unit
    {"library_prefill_exponentials_s", "s", 4e-7},  // Exponentials per step of 128 rows that multiplies do not hide
    {"library_prefill_item_s", "s", 2e-6},          // Fixed time per tile of rows at width 128
    {"library_prefill_item_width", "1", 0.3},       // Exponent of the width in the fixed time per tile
    {"library_prefill_memory", "1", 0.6},           // Fraction of the peak memory bandwidth
    {"library_prefill_overlap", "1", 1.3},          // Overlap exponent of bytes and steps (`overlap_seconds`)
    {"library_prefill_slowdown", "1", 0.1},         // Slowdown of long compute-bound kernels by the power limit
    {"library_prefill_packing", "1", 1.05},         // Factor on the time if heads share a tile
};

struct PrefillSizes {
  double batch, heads, key_heads, rows, width;
};
PrefillSizes to_sizes(std::span<const double> x) { return {x[0], x[1], x[2], x[3], x[4]}; }
double count_flops(const PrefillSizes& p) { return 2 * p.batch * p.heads * p.rows * p.rows * p.width; }
double count_bytes(const PrefillSizes& p) { return 4 * p.batch * p.rows * p.width * (p.heads + p.key_heads); }

// Returns the compute time with tiles of `tile` rows, which `sharing` query heads of a key head fill together.
double compute_seconds(const PrefillSizes& p, const LibraryDevice& chip, std::span<const double> n, double tile,
                       double sharing) {
  const double tiles = std::ceil(p.rows * sharing / tile), steps = std::ceil(p.rows / keys_per_step);
  const double items = p.batch * p.heads / sharing * tiles;
  const double visible_fraction =
      std::min(1.0, (tiles + 1) * (tile / sharing) / 2 / p.rows);  // Mean fraction of unmasked keys
  const double mean_steps = std::clamp(visible_fraction * p.rows / keys_per_step + 0.5, 1.0, steps);
  const double multiply = 4 * tile * keys_per_step * p.width * chip.rates.cores / (n[compute] * chip.rates.flops_per_s);
  const double step = multiply + n[exponentials] * tile / 128;
  const double fixed_seconds = n[item] * base::pow(p.width / reference_width, n[width_power]);
  return std::max(items * (mean_steps * step + fixed_seconds) / chip.rates.cores, steps * step + fixed_seconds);
}

double estimate_seconds(std::span<const double> sizes, const LibraryDevice& chip, std::span<const double> n) {
  const PrefillSizes p = to_sizes(sizes);
  double busy = 1e30;
  for (const double tile : {64.0, 128.0, 192.0}) {
    busy = std::min(busy, compute_seconds(p, chip, n, tile, 1));
    busy = std::min(busy, n[packing] * compute_seconds(p, chip, n, tile, p.heads / p.key_heads));
  }
  const double total = overlap_seconds(busy, count_bytes(p) / (n[memory] * chip.rates.memory_bytes_per_s), n[overlap]);
  const double share = count_flops(p) / chip.rates.flops_per_s / total;
  const double slowdown_fraction = n[slowdown] * share * share * std::clamp((1e6 * total - 100) / 1000, 0.0, 1.0);
  return n[launch] + total * (1 + slowdown_fraction);
}

double roofline_seconds(std::span<const double> sizes, const LibraryDevice& chip) {
  const PrefillSizes p = to_sizes(sizes);
  return std::max(count_flops(p) / chip.rates.flops_per_s, count_bytes(p) / chip.rates.memory_bytes_per_s);
}

constexpr LibraryFormula formula{"prefill", columns, 5, group_columns, numbers, estimate_seconds, roofline_seconds};

}  // namespace prefill

namespace decode {

constexpr std::string_view columns[] = {"batch", "heads", "key_heads", "keys", "width"};
constexpr std::size_t group_columns[] = {1, 2, 4};
enum DecodeParameter { launch, memory, step, item, width_power, merge, overlap, rows_power };
constexpr LibraryParameter numbers[] = {
    {"library_decode_launch_s", "s", 7e-6},     // Launch overhead
    {"library_decode_memory", "1", 0.95},       // Fraction of the peak memory bandwidth
    {"library_decode_step_s", "s", 7e-7},       // Step of 128 keys of width 128 for 64 queries
    {"library_decode_item_s", "s", 2.5e-6},     // Fixed time per split of an item's keys
    {"library_decode_step_width", "1", 1.5},    // Exponent of the width in the time of a step
    {"library_decode_merge_s", "s", 2.5e-6},    // Merge of the splits
    {"library_decode_overlap", "1", 1.3},       // Overlap exponent of bytes and steps (`overlap_seconds`)
    {"library_decode_step_queries", "1", 0.3},  // Exponent of a tile's queries in the time of a step
};

struct DecodeSizes {
  double batch, heads, key_heads, keys, width;
};
DecodeSizes to_sizes(std::span<const double> x) { return {x[0], x[1], x[2], x[3], x[4]}; }
double count_bytes(const DecodeSizes& p) { return 4 * p.batch * p.width * (p.keys * p.key_heads + p.heads); }

double estimate_seconds(std::span<const double> sizes, const LibraryDevice& chip, std::span<const double> n) {
  const DecodeSizes p = to_sizes(sizes);
  const double rate = std::min(1.0, n[memory]) * chip.rates.memory_bytes_per_s,
               blocks = std::ceil(p.keys / keys_per_step);
  const double step_seconds = n[step] * base::pow(p.width / reference_width, n[width_power]);
  double best = 1e30;
  for (const double tile : {16.0, 64.0}) {  // Queries per tile
    const double items = p.batch * p.key_heads * std::ceil(p.heads / p.key_heads / tile);
    const double tile_step_seconds = step_seconds * base::pow(tile / 64, n[rows_power]);
    for (const double splits : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0}) {
      const double used_splits = std::min(splits, blocks);
      const double busy = std::ceil(items * used_splits / chip.rates.cores) *
                          (std::ceil(blocks / used_splits) * tile_step_seconds + n[item]);
      const double merging = used_splits > 1 ? n[merge] + 8 * used_splits * p.batch * p.heads * p.width / rate : 0;
      if (std::max(busy, count_bytes(p) / rate) + merging < best)
        best = std::min(best, overlap_seconds(busy, count_bytes(p) / rate, n[overlap]) + merging);
    }
  }
  return n[launch] + best;
}

double roofline_seconds(std::span<const double> sizes, const LibraryDevice& chip) {
  const DecodeSizes p = to_sizes(sizes);
  return std::max(4 * p.batch * p.heads * p.keys * p.width / chip.rates.flops_per_s,
                  count_bytes(p) / chip.rates.memory_bytes_per_s);
}

constexpr LibraryFormula formula{"decode", columns, 5, group_columns, numbers, estimate_seconds, roofline_seconds};

}  // namespace decode
}  // namespace

const LibraryFormula& prefill_formula() { return prefill::formula; }
const LibraryFormula& decode_formula() { return decode::formula; }

}  // namespace ridge::ops

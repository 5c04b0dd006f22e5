#include <cmath>

#include "ridge/ops/library/form.h"
#include "ridge/ops/library/overlap.h"

namespace ridge::ops {
namespace {

constexpr double block = 128;
constexpr double usual_width = 128;

namespace prefill {

constexpr std::string_view columns[] = {"batch", "heads", "key_heads", "rows", "width"};
constexpr std::size_t site[] = {1, 2, 4};
enum Number { launch, compute, exponentials, item, width_power, memory, overlap, slowdown, packing };
constexpr LibraryNumber numbers[] = {
    {"library_prefill_launch_s", "s", 9e-6},        // Launch overhead
    {"library_prefill_compute", "1", 0.8},          // Fraction of the peak FLOP/s of the matrix unit
    {"library_prefill_exponentials_s", "s", 4e-7},  // Exponentials per step of 128 rows that multiplies do not hide
    {"library_prefill_item_s", "s", 2e-6},          // Fixed time per tile of rows at width 128
    {"library_prefill_item_width", "1", 0.3},       // Exponent of the width in this time
    {"library_prefill_memory", "1", 0.6},           // Fraction of the peak memory bandwidth
    {"library_prefill_overlap", "1", 1.3},          // Overlap exponent of bytes and steps (overlap.h)
    {"library_prefill_slowdown", "1", 0.1},         // Slowdown of long compute-bound kernels by the power limit
    {"library_prefill_packing", "1", 1.05},         // Factor on the time if heads share a tile
};

struct Sizes {
  double batch, heads, key_heads, rows, width;
};
Sizes named(std::span<const double> x) { return {x[0], x[1], x[2], x[3], x[4]}; }
double flops(const Sizes& p) { return 2 * p.batch * p.heads * p.rows * p.rows * p.width; }
double bytes(const Sizes& p) { return 4 * p.batch * p.rows * p.width * (p.heads + p.key_heads); }

// Returns the compute time with tiles of `tile` rows, which `sharing` query heads of a key head fill together.
double busy_seconds(const Sizes& p, const LibraryChip& chip, std::span<const double> n, double tile, double sharing) {
  const double tiles = std::ceil(p.rows * sharing / tile), steps = std::ceil(p.rows / block);
  const double items = p.batch * p.heads / sharing * tiles;
  const double seen = std::min(1.0, (tiles + 1) * (tile / sharing) / 2 / p.rows);  // Mean fraction of unmasked keys
  const double mean = std::clamp(seen * p.rows / block + 0.5, 1.0, steps);
  const double multiply = 4 * tile * block * p.width * chip.rates.cores / (n[compute] * chip.rates.flops_per_s);
  const double step = multiply + n[exponentials] * tile / 128;
  const double beside = n[item] * portable::pow(p.width / usual_width, n[width_power]);
  return std::max(items * (mean * step + beside) / chip.rates.cores, steps * step + beside);
}

double seconds(std::span<const double> sizes, const LibraryChip& chip, std::span<const double> n) {
  const Sizes p = named(sizes);
  double busy = 1e30;
  for (const double tile : {64.0, 128.0, 192.0}) {
    busy = std::min(busy, busy_seconds(p, chip, n, tile, 1));
    busy = std::min(busy, n[packing] * busy_seconds(p, chip, n, tile, p.heads / p.key_heads));
  }
  const double all = overlapped(busy, bytes(p) / (n[memory] * chip.rates.memory_bytes_per_s), n[overlap]);
  const double share = flops(p) / chip.rates.flops_per_s / all;
  const double slower = n[slowdown] * share * share * std::clamp((1e6 * all - 100) / 1000, 0.0, 1.0);
  return n[launch] + all * (1 + slower);
}

double roof(std::span<const double> sizes, const LibraryChip& chip) {
  const Sizes p = named(sizes);
  return std::max(flops(p) / chip.rates.flops_per_s, bytes(p) / chip.rates.memory_bytes_per_s);
}

constexpr LibraryForm form{"prefill", columns, 5, site, numbers, seconds, roof};

}  // namespace prefill

namespace decode {

constexpr std::string_view columns[] = {"batch", "heads", "key_heads", "keys", "width"};
constexpr std::size_t site[] = {1, 2, 4};
enum Number { launch, memory, step, item, width_power, merge, overlap, rows_power };
constexpr LibraryNumber numbers[] = {
    {"library_decode_launch_s", "s", 7e-6},     // Launch overhead
    {"library_decode_memory", "1", 0.95},       // Fraction of the peak memory bandwidth
    {"library_decode_step_s", "s", 7e-7},       // Step of 128 keys of width 128 for 64 queries
    {"library_decode_item_s", "s", 2.5e-6},     // Fixed time per split of an item's keys
    {"library_decode_step_width", "1", 1.5},    // Exponent of the width in the time of a step
    {"library_decode_merge_s", "s", 2.5e-6},    // Merge of the splits
    {"library_decode_overlap", "1", 1.3},       // Overlap exponent of bytes and steps (overlap.h)
    {"library_decode_step_queries", "1", 0.3},  // Exponent of a tile's queries in the time of a step
};

struct Sizes {
  double batch, heads, key_heads, keys, width;
};
Sizes named(std::span<const double> x) { return {x[0], x[1], x[2], x[3], x[4]}; }
double bytes(const Sizes& p) { return 4 * p.batch * p.width * (p.keys * p.key_heads + p.heads); }

double seconds(std::span<const double> sizes, const LibraryChip& chip, std::span<const double> n) {
  const Sizes p = named(sizes);
  const double rate = std::min(1.0, n[memory]) * chip.rates.memory_bytes_per_s, blocks = std::ceil(p.keys / block);
  const double wide = n[step] * portable::pow(p.width / usual_width, n[width_power]);
  double least = 1e30;
  for (const double tile : {16.0, 64.0}) {  // Queries per tile
    const double items = p.batch * p.key_heads * std::ceil(p.heads / p.key_heads / tile);
    const double one = wide * portable::pow(tile / 64, n[rows_power]);
    for (const double pieces : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0}) {
      const double parts = std::min(pieces, blocks);
      const double busy = std::ceil(items * parts / chip.rates.cores) * (std::ceil(blocks / parts) * one + n[item]);
      const double merging = parts > 1 ? n[merge] + 8 * parts * p.batch * p.heads * p.width / rate : 0;
      if (std::max(busy, bytes(p) / rate) + merging < least)
        least = std::min(least, overlapped(busy, bytes(p) / rate, n[overlap]) + merging);
    }
  }
  return n[launch] + least;
}

double roof(std::span<const double> sizes, const LibraryChip& chip) {
  const Sizes p = named(sizes);
  return std::max(4 * p.batch * p.heads * p.keys * p.width / chip.rates.flops_per_s,
                  bytes(p) / chip.rates.memory_bytes_per_s);
}

constexpr LibraryForm form{"decode", columns, 5, site, numbers, seconds, roof};

}  // namespace decode
}  // namespace

const LibraryForm& prefill_form() { return prefill::form; }
const LibraryForm& decode_form() { return decode::form; }

}  // namespace ridge::ops

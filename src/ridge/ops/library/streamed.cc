#include "ridge/ops/library/formula.h"

namespace ridge::ops {
namespace {

constexpr std::string_view columns[] = {"rows", "row_bytes"};
constexpr std::size_t group_columns[] = {1};
enum StreamedParameter { launch, memory, cache, half_miss, row, overlap };
constexpr LibraryParameter numbers[] = {
    {"library_streamed_launch_s", "s", 2.5e-6},  // Launch overhead
    {"library_streamed_memory", "1", 0.85},      // Fraction of the peak memory bandwidth
    {"library_streamed_cache", "1", 1.3},        // Bandwidth of the last-level cache over that of memory
    {"library_streamed_held", "1", 0.7},         // Data size over cache size at which half of the bytes miss
    {"library_streamed_row_s", "s", 1e-9},       // Time per row on one core
    {"library_streamed_overlap", "1", 2},        // Overlap exponent of rows and bytes (`overlap_seconds`)
};

double estimate_seconds(std::span<const double> sizes, const LibraryDevice& chip, std::span<const double> n) {
  const double rows = sizes[0], bytes = rows * sizes[1];
  const double ratio = n[half_miss] * chip.cache_bytes / bytes, missed = 1 / (1 + ratio * ratio * ratio);
  const double moved = bytes / chip.rates.memory_bytes_per_s * (missed / n[memory] + (1 - missed) / n[cache]);
  return n[launch] + overlap_seconds(moved, rows * n[row] / chip.rates.cores, n[overlap]);
}
double roofline_seconds(std::span<const double> sizes, const LibraryDevice& chip) {
  return sizes[0] * sizes[1] / chip.rates.memory_bytes_per_s;
}

constexpr LibraryFormula formula{"streamed", columns, 2, group_columns, numbers, estimate_seconds, roofline_seconds};

}  // namespace

const LibraryFormula& streamed_formula() { return formula; }

}  // namespace ridge::ops

#include "ridge/ops/library/form.h"
#include "ridge/ops/library/overlap.h"

namespace ridge::ops {
namespace {

constexpr std::string_view columns[] = {"rows", "row_bytes"};
constexpr std::size_t site[] = {1};
enum Number { launch, memory, cache, held, row, overlap };
constexpr LibraryNumber numbers[] = {
    {"library_streamed_launch_s", "s", 2.5e-6},  // Launch overhead
    {"library_streamed_memory", "1", 0.85},      // Fraction of the peak memory bandwidth
    {"library_streamed_cache", "1", 1.3},        // The same for data in the last-level cache
    {"library_streamed_held", "1", 0.7},         // Fraction of that cache at which half of the bytes miss
    {"library_streamed_row_s", "s", 1e-9},       // Time per row on one core
    {"library_streamed_overlap", "1", 2},        // Overlap exponent of rows and bytes (overlap.h)
};

double seconds(std::span<const double> sizes, const LibraryChip& chip, std::span<const double> n) {
  const double rows = sizes[0], bytes = rows * sizes[1];
  const double ratio = n[held] * chip.cache_bytes / bytes, missed = 1 / (1 + ratio * ratio * ratio);
  const double moved = bytes / chip.rates.memory_bytes_per_s * (missed / n[memory] + (1 - missed) / n[cache]);
  return n[launch] + overlapped(moved, rows * n[row] / chip.rates.cores, n[overlap]);
}
double roof(std::span<const double> sizes, const LibraryChip& chip) {
  return sizes[0] * sizes[1] / chip.rates.memory_bytes_per_s;
}

constexpr LibraryForm form{"streamed", columns, 2, site, numbers, seconds, roof};

}  // namespace

const LibraryForm& streamed_form() { return form; }

}  // namespace ridge::ops

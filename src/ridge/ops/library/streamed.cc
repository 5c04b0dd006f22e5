#include "ridge/ops/library/form.h"
#include "ridge/ops/library/overlap.h"

namespace ridge::ops {
namespace {

constexpr std::string_view columns[] = {"rows", "row_bytes"};
constexpr std::size_t site[] = {1};
enum Number { launch, memory, cache, held, row, overlap };
constexpr LibraryNumber numbers[] = {
    {"library_streamed_launch_s", "s", 2.5e-6},  // of any
    {"library_streamed_memory", "1", 0.85},      // of the memory's peak
    {"library_streamed_cache", "1", 1.3},        // the same of what the last-level cache holds
    {"library_streamed_held", "1", 0.7},         // of that cache: so many bytes are half from memory
    {"library_streamed_row_s", "s", 1e-9},       // of a row, of a core
    {"library_streamed_overlap", "1", 2},        // of rows and bytes
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

#include "ridge/ops/library/formula.h"

namespace ridge::ops {
namespace {

constexpr std::string_view columns[] = {"multiply_s", "vector_s", "memory_s", "bytes", "m", "n", "k"};
constexpr std::size_t group_columns[] = {3, 5, 6};
enum CpuParameter { launch, compute, rows, columns_, depth, vector, memory, cache, half_miss, overlap };
constexpr LibraryParameter numbers[] = {
    {"cpu_launch_s", "s", 4e-6},  // Launch overhead: threads start and synchronize
    {"cpu_compute", "1", 0.9},    // Fraction of the multiply rate of products
    {"cpu_rows", "1", 2},         // Rows of a product that reach half of the multiply rate
    {"cpu_columns", "1", 8},      // Columns of a product that reach half of the multiply rate
    {"cpu_depth", "1", 16},       // Depth (k) of a product that reaches half of the multiply rate
    {"cpu_vector", "1", 0.8},     // Fraction of the vector rate, for all other computation
    {"cpu_memory", "1", 0.9},     // Fraction of the memory bandwidth
    {"cpu_cache", "1", 3},        // Bandwidth of the last-level cache over that of memory
    {"cpu_held", "1", 0.6},       // Data size over cache size at which half of the bytes miss
    {"cpu_overlap", "1", 2},      // Overlap exponent of computing and bytes (`overlap_seconds`)
};

double estimate_seconds(std::span<const double> x, const LibraryDevice& chip, std::span<const double> n) {
  const double bytes = x[3], m = x[4], product_columns = x[5], k = x[6];
  const double filled = m / (m + n[rows]) * (product_columns / (product_columns + n[columns_])) * (k / (k + n[depth]));
  const double computing = x[0] / (n[compute] * filled) + x[1] / n[vector];
  const double ratio = n[half_miss] * chip.cache_bytes / bytes, missed = 1 / (1 + ratio * ratio * ratio);
  const double moving = x[2] * (missed / n[memory] + (1 - missed) / n[cache]);
  return n[launch] + overlap_seconds(computing, moving, n[overlap]);
}
double roofline_seconds(std::span<const double> x, const LibraryDevice&) { return std::max({x[0], x[1], x[2]}); }

constexpr LibraryFormula formula{"cpu", columns, 7, group_columns, numbers, estimate_seconds, roofline_seconds};

}  // namespace

const LibraryFormula& cpu_formula() { return formula; }

}  // namespace ridge::ops

// Time models of library kernels whose implementation is unknown. A model is a formula with at most ten numbers, which
// `ridge calibrate` fits to timings of the library on a machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "ridge/base/portable_math.h"
#include "ridge/ops/product/library.h"

namespace ridge::ops {

struct LibraryDevice {  // A chip, with the rates of its datasheet
  DatasheetRates rates;
  double cache_bytes = 0;    // Size of the last-level cache; 0 if unknown
  double element_bytes = 2;  // Size of an element of the operands
};
struct LibraryParameter {
  std::string_view key, unit;  // Key in a machine file ("library_prefill_launch_s") and its unit
  double initial_value = 0;    // Start of the fit: a physical estimate
};
struct LibraryFormula {
  std::string_view name;                       // "prefill"
  std::span<const std::string_view> columns;   // Columns of a CSV of timings: the sizes of a kernel
  std::size_t required_columns;                // Number of leading columns that are required; the others default to 1
  std::span<const std::size_t> group_columns;  // Timings that agree in these columns are all fitted or all held out
  std::span<const LibraryParameter> numbers;   // Parameters of the formula, which a fit determines
  double (*estimate_seconds)(std::span<const double> sizes, const LibraryDevice& chip, std::span<const double> numbers);
  double (*roofline_seconds)(std::span<const double> sizes, const LibraryDevice& chip);
};

// "product": D = A * B, `batch` products (ops/product/library.h).
const LibraryFormula& product_formula();
// "prefill": causal attention of `rows` queries and `rows` keys for batch * heads heads in 16 bits; each key head
// serves heads / key_heads query heads. The estimate is that of the fastest tile of 64 to 192 rows, with or without
// packing the heads that share keys into one tile, as a library's heuristic would choose.
const LibraryFormula& prefill_formula();
// "decode": one query per head against `keys` keys, whose blocks are distributed over up to 32 splits.
const LibraryFormula& decode_formula();
// "streamed": a kernel that moves `rows` rows of `row_bytes` bytes once.
const LibraryFormula& streamed_formula();

// "cpu": a kernel of this project on a CPU. Columns: seconds of multiplies, of other computation and of memory traffic
// at the machine's sustained rates; bytes; m, n and k of a product (1 for other kernels).
const LibraryFormula& cpu_formula();

std::span<const LibraryFormula* const> library_formulas();

// Returns the p-norm of two times that overlap: their sum for power 1, nearly the longer one for power 8.
inline double overlap_seconds(double x, double y, double power) {
  const double longer = std::max(x, y), shorter = std::min(x, y), p = std::clamp(power, 1.0, 8.0);
  if (shorter < 0.001 * longer) return p == 1 ? longer + shorter : longer;
  return longer * base::pow(1 + base::pow(shorter / longer, p), 1 / p);
}

}  // namespace ridge::ops

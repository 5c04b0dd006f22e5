// Time models of library kernels whose implementation is unknown. A model is a formula with at most ten numbers, which
// `ridge calibrate` fits to timings of the library on a machine.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "ridge/ops/product/library.h"

namespace ridge::ops {

struct LibraryDevice {  // Values of the datasheet
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
  std::span<const std::size_t> group_columns;  // Kernels that agree in these columns are all fitted or all held out
  std::span<const LibraryParameter> numbers;
  double (*estimate_seconds)(std::span<const double> sizes, const LibraryDevice& chip, std::span<const double> numbers);
  double (*roofline_seconds)(std::span<const double> sizes, const LibraryDevice& chip);
};

// "product": D = A * B, `batch` products (ops/product/library.h).
const LibraryFormula& product_formula();
// "prefill": causal attention of `rows` queries and `rows` keys for batch * heads heads in 16 bits; each key head
// serves heads / key_heads query heads. Returns the fastest of tiles of 64 to 192 rows, with and without heads that
// share keys in one tile, because a library's heuristic would choose it.
const LibraryFormula& prefill_formula();
// "decode": one query per head against `keys` keys, whose blocks are distributed over up to 32 splits.
const LibraryFormula& decode_formula();
// "streamed": a kernel that moves `rows` rows of `row_bytes` bytes once.
const LibraryFormula& streamed_formula();

// "cpu": a kernel of this project on a CPU. Columns: the seconds of its multiplies, its other computation and its bytes
// at the machine's sustained rates; its bytes; m, n and k of a product (1 for other kernels).
const LibraryFormula& cpu_formula();

std::span<const LibraryFormula* const> library_formulas();

}  // namespace ridge::ops

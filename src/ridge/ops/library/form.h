// Time models of library kernels whose implementation is unknown. A model is a formula with at most ten numbers, which
// `ridge calibrate` fits to timings of the library on a machine.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "ridge/ops/product/library.h"

namespace ridge::ops {

struct LibraryChip {  // Values of the datasheet
  LibraryMachine rates;
  double cache_bytes = 0;    // Size of the last-level cache; 0 if unknown
  double element_bytes = 2;  // Size of an element of the operands
};
struct LibraryNumber {
  std::string_view key, unit;  // Key in a machine file ("library_prefill_launch_s") and its unit
  double start = 0;            // Start of the fit: a physical estimate
};
struct LibraryForm {
  std::string_view name;                      // "prefill"
  std::span<const std::string_view> columns;  // Columns of a CSV of timings: the sizes of a kernel
  std::size_t needed;                         // Number of leading columns that are required; the others default to 1
  std::span<const std::size_t> site;          // Kernels that agree in these columns are all fitted or all held out
  std::span<const LibraryNumber> numbers;
  double (*seconds)(std::span<const double> sizes, const LibraryChip& chip, std::span<const double> numbers);
  double (*roof)(std::span<const double> sizes, const LibraryChip& chip);
};

// "product": D = A * B, `batch` products (ops/product/library.h).
const LibraryForm& product_form();
// "prefill": causal attention of `rows` queries and `rows` keys for batch * heads heads in 16 bits; each key head
// serves heads / key_heads query heads. Returns the fastest of tiles of 64 to 192 rows, with and without heads that
// share keys in one tile, because a library's heuristic would choose it.
const LibraryForm& prefill_form();
// "decode": one query per head against `keys` keys, whose blocks are distributed over up to 32 splits.
const LibraryForm& decode_form();
// "streamed": a kernel that moves `rows` rows of `row_bytes` bytes once.
const LibraryForm& streamed_form();

// "cpu": a kernel of this project on a CPU. Columns: the seconds of its multiplies, its other computation and its bytes
// at the machine's sustained rates; its bytes; m, n and k of a product (1 for other kernels).
const LibraryForm& cpu_form();

std::span<const LibraryForm* const> library_forms();

}  // namespace ridge::ops

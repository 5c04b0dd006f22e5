// How long a library's kernels take whose plans nobody knows: forms of at most ten numbers, which `ridge calibrate`
// fits to timings of a library on a machine.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "ridge/ops/product/library.h"

namespace ridge::ops {

struct LibraryChip {  // by its datasheet
  LibraryMachine rates;
  double cache_bytes = 0;    // of the last level; 0: not on record
  double element_bytes = 2;  // of an operand
};
struct LibraryNumber {
  std::string_view key, unit;  // of a machine file: "library_prefill_launch_s"
  double start = 0;            // where a fit begins: a physical guess
};
struct LibraryForm {
  std::string_view name;                      // "prefill"
  std::span<const std::string_view> columns;  // of a CSV of timings: a kernel's sizes, in this order
  std::size_t needed;                         // so many of these; the others are 1 where they are left out
  std::span<const std::size_t> site;          // the columns that are fitted or kept apart together
  std::span<const LibraryNumber> numbers;
  double (*seconds)(std::span<const double> sizes, const LibraryChip& chip, std::span<const double> numbers);
  double (*roof)(std::span<const double> sizes, const LibraryChip& chip);
};

// product: D = A * B, `batch` of them (ops/product/library.h).
const LibraryForm& product_form();
// prefill: causal attention of `rows` queries and as many keys, batch times heads of them; a head of keys serves
// heads / key_heads of queries; 16-bit numbers. Tiles of 64 to 192 rows, heads that share keys in one tile or not: the
// best of these, as a library's heuristic finds it.
const LibraryForm& prefill_form();
// decode: one query a head against `keys` keys, whose blocks are shared out in up to 32 parts.
const LibraryForm& decode_form();
// streamed: rows of which each moves `row_bytes`, once.
const LibraryForm& streamed_form();

// cpu: a kernel of this project's on a CPU. What its multiplies, all else that it computes and its bytes take at the
// rates that the machine sustains; its bytes; of a product, its sizes (1 where there is none).
const LibraryForm& cpu_form();

std::span<const LibraryForm* const> library_forms();

}  // namespace ridge::ops

// A systolic array is a grid of multiply-adders without control: numbers enter at two edges, every element hands on
// what it got one cycle later, and the product of two matrices falls out. One operand (or the result) stays in the
// elements, the rest moves; a product larger than the array is done in folds. On 4×4 elements with the weights in
// place, one vector keeps 16 elements busy for 1 cycle of 7: 14.3 %; B vectors give B/(B + 6).
//
// Three depths must agree: the closed form (here), a clock per fold (folds.h) and every element stepped with real
// numbers (elements.h). Cycles are SCALE-Sim's (v3, commit 1d62b68), which prints the number of the last cycle:
// folds·fold − 1.
//
//   dataflow  stays     Sr  Sc  T   fold            32×32, M 256 N 128 K 256
//   os        C [M, N]  M   N   K   T + R + C − 2   32 folds · 318 − 1 = 10175
//   ws        B [K, N]  K   N   M   T + 2R + C − 2  32 folds · 350 − 1 = 11199
//   is        A [K, M]  K   M   N   T + 2R + C − 2  64 folds · 222 − 1 = 14207
//
// The extra R shifts the stationary operand in. With `preload` it is in place before a fold starts, a fold takes
// T + R + C − 2 cycles and cycles = folds·fold, nothing taken off.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ridge/base/result.h"

namespace ridge {

enum class Dataflow : std::uint8_t { output_stationary, weight_stationary, input_stationary };
std::string_view name(Dataflow dataflow);                   // os, ws, is
Result<Dataflow> dataflow_from(std::string_view spelling);  // Error: another spelling

// A [M, K] · B [K, N] → C [M, N]; SCALE-Sim calls A the ifmap, B the filter and C the ofmap.
struct ProductSize {
  std::int64_t m = 1, n = 1, k = 1;
  bool operator==(const ProductSize&) const = default;
};

struct SystolicArray {
  std::int64_t rows = 1, cols = 1;  // R, C: at most max_side each
  Dataflow dataflow = Dataflow::weight_stationary;
  bool preload = false;
  static constexpr std::int64_t max_side = 65536;
  bool operator==(const SystolicArray&) const = default;
};

// What stays and what moves; the one description that all three depths read. With an operand stationary the array holds
// a tile of it [Sr, Sc], the other operand moves right and sums move down; input-stationary is weight-stationary on
// Cᵀ = Bᵀ·Aᵀ. With the output stationary both operands move, A right and B down.
struct SystolicMapping {
  bool output_stays = false;
  bool transposed = false;                    // is: works on Cᵀ = Bᵀ·Aᵀ
  std::int64_t sr = 1, sc = 1, t = 1;         // the stationary matrix and the cycles that stream past it
  std::int64_t row_folds = 1, col_folds = 1;  // ⌈Sr/R⌉, ⌈Sc/C⌉; the row fold is the inner loop
  std::int64_t load = 0;                      // cycles that shift a stationary tile in, per fold
  std::int64_t stream = 1;                    // T + R + C − 2
  std::int64_t folds() const { return row_folds * col_folds; }
  std::int64_t fold() const { return load + stream; }
};

// Words that cross between the array and its SRAMs. ws and is write a partial sum for every row fold; reading it back
// is not counted.
struct SramWords {
  std::int64_t a = 0;  // ifmap reads
  std::int64_t b = 0;  // filter reads
  std::int64_t c = 0;  // ofmap writes, as SCALE-Sim counts them
  // Of c, words that nothing writes: for os SCALE-Sim adds R + C to every fold.
  std::int64_t c_overcount = 0;
  bool operator==(const SramWords&) const = default;
};

struct SystolicReport {
  SystolicArray array;
  ProductSize product;
  std::int64_t folds = 0;
  std::int64_t fold_cycles = 0;
  std::int64_t cycles = 0;            // without stalls
  std::optional<double> utilization;  // M·N·K/(R·C·cycles), 0 to 1 and a little above where the − 1 weighs; none when
                                      // cycles is 0 (M = N = K = R = C = 1, os)
  double mapping_efficiency = 0;  // Sr·Sc/(folds·R·C): elements that hold something
  // What SCALE-Sim prints beside the other two. For ws and is it divides by T + 2R + 2C − 3 where its own fold takes
  // T + 2R + C − 2, so its three columns contradict one another.
  double scalesim_compute_utilization = 0;
  SramWords sram_words;
  std::string text() const;  // a few lines, ends with a newline
  bool operator==(const SystolicReport&) const = default;
};

// Errors: a size below 1, an array side over max_side, a count over 2^63 − 1.
Status check_systolic(const SystolicArray& array, const ProductSize& product);
// What stays and moves; sizes must have passed check_systolic.
SystolicMapping map_product(const SystolicArray& array, const ProductSize& product);
Result<SystolicReport> simulate_systolic(const SystolicArray& array, const ProductSize& product);

}  // namespace ridge

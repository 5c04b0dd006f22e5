// Closed form of a systolic array: a grid of multiply-adders without control. Numbers enter at two edges, and each
// element forwards its inputs one cycle later. One operand (or the result) is stationary in the elements, the others
// move. A product larger than the array takes several folds. With 4×4 elements and weights in place, one vector keeps
// 16 elements busy for 1 cycle of 7, that is 14.3 %; B vectors give B/(B + 6).
//
// Three models must agree: the closed form (here), a simulation phase by phase (`simulate_folds`) and one of every
// element with real numbers (systolic_elements.h). Cycles are SCALE-Sim's (v3, commit 1d62b68), which prints the index
// of the last cycle: folds·fold − 1.
//
//   dataflow  in place  Sr  Sc  T   fold            32×32, M 256 N 128 K 256
//   os        C [M, N]  M   N   K   T + R + C − 2   32 folds · 318 − 1 = 10175
//   ws        B [K, N]  K   N   M   T + 2R + C − 2  32 folds · 350 − 1 = 11199
//   is        A [K, M]  K   M   N   T + 2R + C − 2  64 folds · 222 − 1 = 14207
//
// The extra R cycles shift the stationary operand in. With `preload` it is in place before a fold starts: a fold takes
// T + R + C − 2 cycles, and the total is folds·fold without the − 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ridge/base/product_size.h"
#include "ridge/base/result.h"

namespace ridge {

enum class Dataflow : std::uint8_t { output_stationary, weight_stationary, input_stationary };
std::string_view dataflow_name(Dataflow dataflow);           // os, ws, is
Result<Dataflow> parse_dataflow(std::string_view spelling);  // accepts the long names too

struct SystolicArray {
  std::int64_t rows = 1, cols = 1;  // R, C: at most max_side each
  Dataflow dataflow = Dataflow::weight_stationary;
  bool preload = false;
  static constexpr std::int64_t max_side = 65536;
  bool operator==(const SystolicArray&) const = default;
};

// Mapping of a product A [M, K] · B [K, N] → C [M, N] onto the array, used by all three models. SCALE-Sim calls A the
// ifmap, B the filter and C the ofmap. With a stationary operand the array holds a tile [Sr,
// Sc] of it, the other operand moves right and sums move down. Input-stationary is weight-stationary for Cᵀ = Bᵀ·Aᵀ.
// With a stationary output both operands move, A right and B down.
struct SystolicMapping {
  bool is_output_stationary = false;
  bool is_transposed = false;                 // input-stationary: computes Cᵀ = Bᵀ·Aᵀ
  std::int64_t sr = 1, sc = 1, t = 1;         // sides of the stationary matrix; steps streamed past it in a fold
  std::int64_t row_folds = 1, col_folds = 1;  // ⌈Sr/R⌉, ⌈Sc/C⌉; the row fold is the inner loop
  std::int64_t load_cycles = 0;               // cycles that shift a stationary tile in, per fold
  std::int64_t stream_cycles = 1;             // T + R + C − 2
  std::int64_t fold_count() const { return row_folds * col_folds; }
  std::int64_t fold_cycles() const { return load_cycles + stream_cycles; }
};

// Words transferred between the array and its SRAMs. ws and is write a partial sum for every row fold; reading it back
// is not counted.
struct SramWords {
  std::int64_t a = 0;  // ifmap reads
  std::int64_t b = 0;  // filter reads
  std::int64_t c = 0;  // ofmap writes, as SCALE-Sim counts them
  // Words of c that are never written: for os SCALE-Sim adds R + C to every fold.
  std::int64_t c_overcount = 0;
  bool operator==(const SramWords&) const = default;
};

struct SystolicReport {
  SystolicArray array;
  ProductSize product;
  std::int64_t folds = 0;
  std::int64_t fold_cycles = 0;
  std::int64_t cycles = 0;            // without stalls
  std::optional<double> utilization;  // M·N·K/(R·C·cycles); can exceed 1 slightly because of the − 1; nullopt if cycles
                                      // is 0 (M = N = K = R = C = 1, os)
  double mapping_efficiency = 0;  // Sr·Sc/(folds·R·C): fraction of the elements in use
  // SCALE-Sim's third utilization column. For ws and is it divides by T + 2R + 2C − 3 although its own fold takes
  // T + 2R + C − 2 cycles, so its three columns contradict one another.
  double scalesim_compute_utilization = 0;
  SramWords sram_words;
  std::string to_text() const;  // several lines, each with a newline
  bool operator==(const SystolicReport&) const = default;
};

// Errors: a size below 1, an array side over max_side, a count over 2^63 − 1.
Status check_systolic(const SystolicArray& array, const ProductSize& product);
// Returns the mapping. The sizes must have passed `check_systolic`.
SystolicMapping make_mapping(const SystolicArray& array, const ProductSize& product);
Result<SystolicReport> simulate_systolic(const SystolicArray& array, const ProductSize& product);

// A convolution as a matrix product (im2col): every output pixel is a row, its window of the image, and every filter a
// column. AlexNet's first layer, 224×224×3 under 96 filters of 11×11 with stride 4, is M 55·55, N 96, K 363.

// Sizes in pixels, without padding. A side has ⌈(image − filter + stride)/stride⌉ outputs, as SCALE-Sim counts. If the
// stride leaves a remainder, that is one window more than fits (55 instead of 54 above); pixels outside the image are
// not fetched.
struct Convolution {
  std::int64_t height = 1, width = 1;  // size of the image
  std::int64_t filter_height = 1, filter_width = 1;
  std::int64_t channels = 1, filters = 1;
  std::int64_t stride_height = 1, stride_width = 1;
  std::int64_t batch = 1;  // number of images
  std::int64_t out_height() const { return (height - filter_height + stride_height - 1) / stride_height + 1; }
  std::int64_t out_width() const { return (width - filter_width + stride_width - 1) / stride_width + 1; }
  bool operator==(const Convolution&) const = default;
};

// Returns the product's sizes. Errors: a size outside 1 to 2^31 − 1, a filter larger than the image, over 64 bits.
Result<ProductSize> to_product_size(const Convolution& convolution);

}  // namespace ridge

// Simulates every element of a systolic array in every cycle, with real numbers. Element (r, c) stores one number,
// receives one from the left and one from above, and forwards both one cycle later. With a stationary operand, sums
// move down: down + stationary·left. With a stationary output, an operand moves down and the element accumulates
// down·left. Everything else follows from `SystolicMapping`. A 2×2 array, ws, B = [1 2; 3 4] in place, A = [5 6]: 5
// enters row 0 at cycle 0 and 6 enters row 1 at cycle 1; 5·1 + 6·3 = 23 leaves column 0 after cycle 1 and 5·2 + 6·4 =
// 34 leaves column 1 after cycle 2.
//
// A stationary output is read from the elements at the end of a fold, in no cycles. SCALE-Sim's trace instead writes
// row R − 1 first, R − 1 cycles before that row has its last product; a real drain would take R more cycles for each
// fold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

// The registers after one cycle, row-major [R, C], for drawings. `busy` is 1 if both inputs of the element belong to
// the product; over all frames that is M·N·K times.
struct ArrayFrame {
  std::int64_t cycle = 0;
  std::int64_t fold = 0;
  std::vector<float> stationary, left, down;
  std::vector<std::uint8_t> busy;
};

struct ElementRun {
  std::vector<float> c;            // [M, N], row-major; f32 sums in ascending k, row folds added in order
  std::int64_t cycles = 0;         // simulated cycles, counted as in `SystolicReport`
  std::int64_t element_steps = 0;  // R·C for every simulated cycle
  std::int64_t multiply_adds = 0;  // useful ones: both inputs belong to the product
  SramWords sram_words;            // words across the array's edges; c_overcount is 0
  std::vector<ArrayFrame> frames;  // only if requested
  double busy_fraction() const { return static_cast<double>(multiply_adds) / static_cast<double>(element_steps); }
};

struct ElementOptions {
  bool frames = false;  // stores the registers of every cycle, at most max_frame_words numbers
  static constexpr std::int64_t max_frame_words = 1 << 22;
  static constexpr std::int64_t max_elements = 1 << 24;
  static constexpr std::int64_t max_results = 1 << 28;
  static constexpr std::int64_t max_steps = std::int64_t{1} << 40;
};

// Simulates A [M, K] times B [K, N], both row-major. Errors: those of `check_systolic`; operands of another size; an
// array, a result, element-steps or frames above the limits of `ElementOptions`.
Result<ElementRun> simulate_elements(const SystolicArray& array, const ProductSize& product, std::span<const float> a,
                                     std::span<const float> b, const ElementOptions& options = {});

}  // namespace ridge

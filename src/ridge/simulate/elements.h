// Every processing element, every cycle, with real numbers. An element (r, c) holds one number, gets one from the left
// and one from above, and hands on one each way a cycle later. With an operand stationary, what moves down is a sum:
// down + held·left. With the output stationary what moves down is an operand, and held + down·left is held. That is the
// whole difference; feeding, skew and collecting follow from SystolicMapping. A 2×2 array, ws, B = [1 2; 3 4] in place,
// A = [5 6]: 5 enters row 0 at cycle 0 and 6 enters row 1 at cycle 1; 5·1 + 6·3 = 23 leaves column 0 after cycle 1 and
// 5·2 + 6·4 = 34 leaves column 1 after cycle 2.
//
// The output-stationary array is read where it stands when a fold ends. SCALE-Sim's trace instead writes row R − 1
// first, R − 1 cycles before that row has its last product; a real drain would take R more cycles a fold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

// The registers after one cycle, row-major [R, C]; for drawings. `busy`: 1 where the element's numbers belong to the
// product, so that the ones of all frames are M·N·K.
struct ArrayFrame {
  std::int64_t cycle = 0;
  std::int64_t fold = 0;
  std::vector<float> held, left, down;
  std::vector<std::uint8_t> busy;
};

struct ElementRun {
  std::vector<float> c;            // [M, N], row-major; f32 sums in ascending k, those of the row folds added in turn
  std::int64_t cycles = 0;         // counted on the clock, by SystolicReport's rule
  std::int64_t element_steps = 0;  // R·C for every cycle that was stepped
  std::int64_t multiply_adds = 0;  // useful ones: both numbers belong to the product
  SramWords sram_words;            // words that crossed the edges: c_overcount stays 0
  std::vector<ArrayFrame> frames;  // empty unless asked for
  double busy_fraction() const { return static_cast<double>(multiply_adds) / static_cast<double>(element_steps); }
};

struct ElementOptions {
  bool frames = false;  // keep every cycle's registers: at most max_frame_words numbers in all
  static constexpr std::int64_t max_frame_words = 1 << 22;
  static constexpr std::int64_t max_elements = 1 << 24;
  static constexpr std::int64_t max_results = 1 << 28;
  static constexpr std::int64_t max_steps = std::int64_t{1} << 40;
};

// a: [M, K], b: [K, N], row-major. Errors: those of check_systolic; operands of another size; more than max_steps
// element-steps, max_elements of array, max_results of C or max_frame_words of frames.
Result<ElementRun> step_elements(const SystolicArray& array, const ProductSize& product, std::span<const float> a,
                                 std::span<const float> b, const ElementOptions& options = {});

}  // namespace ridge

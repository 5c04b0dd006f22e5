// Complete simulation of one product on an array, or of one layer of a topology: counts, phases of a fold, memory
// stalls if a bandwidth is given, and the registers after every cycle if the array is small enough to draw. 4×4, ws,
// preloaded, one vector: 7 cycles, 7 frames of 16 elements, 16 of the 112 busy.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/simulate/scratchpad.h"
#include "ridge/simulate/systolic_elements.h"
#include "ridge/simulate/systolic_folds.h"

namespace ridge {

struct SystolicTask {
  std::string name;  // layer name; may be empty
  SystolicArray array;
  ProductSize product;
  std::int64_t copies = 1;  // a depthwise convolution runs one channel this many times
  std::optional<Convolution> convolution = std::nullopt;
  std::optional<Scratchpads> scratchpads = std::nullopt;  // nullopt: no memory stalls
};

struct SystolicRun {
  SystolicTask task;
  SystolicReport report;
  SystolicMapping mapping;
  FoldPhaseCycles phases;  // equal in every fold
  std::optional<StallReport> stalls;
  std::string mapping_formula() const;  // "T + 2R + C − 2 = 350, T = M = 256"
  static constexpr std::int64_t max_drawn_elements = 64, max_drawn_cycles = 28;
  // True if `compute_frames` supports this size.
  bool is_drawable() const;
};

// Errors: those of check_systolic and simulate_stalls; copies below 1.
Result<SystolicRun> run_systolic(const SystolicTask& task);

// Returns the registers after every cycle of a drawable run. Both operands count 1, 2, … 9, 1, … along their rows.
Result<ElementRun> compute_frames(const SystolicRun& run);

// Totals of layers that run sequentially, copies included.
struct SystolicTotal {
  double cycles = 0, stall_cycles = 0, multiply_adds = 0, element_cycles = 0;
  double utilization() const { return multiply_adds / element_cycles; }  // without stalls
};
SystolicTotal sum_runs(std::span<const SystolicRun> runs);

}  // namespace ridge

// Complete simulation of one product on an array, or of one layer of a topology: counts, phases of a fold, memory
// stalls if a bandwidth is given, and the registers after every cycle if the array is small enough to draw. 4×4, ws,
// preloaded, one vector: 7 cycles, 7 frames of 16 elements, 16 of the 112 busy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"
#include "ridge/simulate/scratchpad.h"
#include "ridge/simulate/systolic.h"
#include "ridge/simulate/systolic_elements.h"

namespace ridge {

// Simulates a systolic array phase by phase. A fold has four phases: load shifts the stationary tile in, fill lasts
// until the skewed stream has reached its maximum number of elements, compute keeps these busy, drain lasts until the
// stream has left. As in SCALE-Sim, folds do not overlap; weight_loading.h models an array that loads the next tile
// concurrently. M 16 N 4 K 4 on 4×4, ws: load [0, 4), fill [4, 10), compute [10, 20), drain [20, 26).

// Has the cycles of the phases of one fold, which are equal for every fold of a product.
struct FoldPhaseCycles {
  std::int64_t load = 0, fill = 0, compute = 0, drain = 0;
  bool operator==(const FoldPhaseCycles&) const = default;
};
FoldPhaseCycles fold_phase_cycles(const SystolicArray& array, const SystolicMapping& map);

struct FoldSimulation {
  std::int64_t folds = 0;
  std::int64_t cycles = 0;         // counted as in `SystolicReport`
  std::int64_t multiply_adds = 0;  // useful ones: M·N·K
  std::int64_t load_cycles = 0, fill_cycles = 0, compute_cycles = 0, drain_cycles = 0;  // sum: folds·fold
  SramWords sram_words;
  Timeline timeline;  // one lane "array" with the first max_events / 4 folds
  static constexpr std::int64_t max_events = 1 << 16;
};

// Returns a timeline of the first `count` folds. The sizes must have passed `check_systolic`.
Timeline first_folds_timeline(const SystolicArray& array, const ProductSize& product, std::int64_t count);

// Simulates every fold. Errors: those of `check_systolic`; over 10^9 folds.
Result<FoldSimulation> simulate_folds(const SystolicArray& array, const ProductSize& product);

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

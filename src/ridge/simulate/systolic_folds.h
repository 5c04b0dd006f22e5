// Simulates a systolic array phase by phase. A fold has four phases: load shifts the stationary tile in, fill lasts
// until the skewed stream has reached its maximum number of elements, compute keeps these busy, drain lasts until the
// stream has left. As in SCALE-Sim, folds do not overlap; weight_loading.h models an array that loads the next tile
// concurrently. M 16 N 4 K 4 on 4×4, ws: load [0, 4), fill [4, 10), compute [10, 20), drain [20, 26).
#pragma once

#include <cstdint>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

// Cycles of the phases of one fold; equal for every fold of a product.
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

}  // namespace ridge

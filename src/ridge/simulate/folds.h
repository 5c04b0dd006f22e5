// The array on a clock that ticks once per phase of a fold: shift the stationary tile in (load), let the skewed stream
// reach as many elements as it ever will (fill), keep those busy (compute), let it run out (drain). Folds do not
// overlap here, as in SCALE-Sim; weights.h has the clock for an array that loads the next tile meanwhile. M 16 N 4 K 4
// on 4×4, ws: load [0, 4), fill [4, 10), compute [10, 20), drain [20, 26).
#pragma once

#include <cstdint>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

// The cycles of one fold; every fold of a product takes the same.
struct FoldPhases {
  std::int64_t load = 0, fill = 0, compute = 0, drain = 0;
  bool operator==(const FoldPhases&) const = default;
};
FoldPhases phases_of(const SystolicArray& array, const SystolicMapping& map);

struct FoldClock {
  std::int64_t folds = 0;
  std::int64_t cycles = 0;         // as SystolicReport counts them
  std::int64_t multiply_adds = 0;  // that the mapped elements did: M·N·K
  std::int64_t load_cycles = 0, fill_cycles = 0, compute_cycles = 0, drain_cycles = 0;  // their sum is folds·fold
  SramWords sram_words;
  Timeline timeline;  // one lane "array"; the first max_events / 4 folds
  static constexpr std::int64_t max_events = 1 << 16;
};

// The first `count` folds, for a drawing; sizes must have passed check_systolic.
Timeline first_folds(const SystolicArray& array, const ProductSize& product, std::int64_t count);

// Walks every fold. Errors: those of check_systolic; over 10^9 folds.
Result<FoldClock> clock_folds(const SystolicArray& array, const ProductSize& product);

}  // namespace ridge

// All that one product on an array has to tell, in one place: the counts, where a fold's cycles go, the waits for
// memory if a bandwidth is given, and, where the array is small enough to be drawn, the registers after every cycle. A
// layer of a topology is the same with a name. 4×4, ws, preloaded, one vector: 7 cycles, 7 frames of 16 elements, 16 of
// the 112 busy.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/simulate/elements.h"
#include "ridge/simulate/folds.h"
#include "ridge/simulate/scratchpad.h"

namespace ridge {

struct SystolicTask {
  std::string name;  // of a layer; may be empty
  SystolicArray array;
  ProductSize product;
  std::int64_t copies = 1;  // a depthwise convolution is one channel, this many times
  std::optional<Convolution> convolution = std::nullopt;
  std::optional<Scratchpads> scratchpads = std::nullopt;  // none: never waits
};

struct SystolicRun {
  SystolicTask task;
  SystolicReport report;
  SystolicMapping mapping;
  FoldPhases phases;  // of every fold
  std::optional<StallReport> stalls;
  std::string mapping_formula() const;  // "T + 2R + C − 2 = 350, T = M = 256"
  static constexpr std::int64_t max_drawn_elements = 64, max_drawn_cycles = 28;
  // Whether frames_of has a picture of it.
  bool drawable() const;
};

// Errors: those of check_systolic and simulate_stalls; copies below 1.
Result<SystolicRun> run_systolic(const SystolicTask& task);

// Every cycle of a drawable run. The operands are small whole numbers: A counts 1, 2, 3, … along its rows, B too, both
// starting again after 9.
Result<ElementRun> frames_of(const SystolicRun& run);

// Layers one after the other, copies included.
struct SystolicTotal {
  double cycles = 0, stall_cycles = 0, multiply_adds = 0, element_cycles = 0;
  double utilization() const { return multiply_adds / element_cycles; }  // without stalls
};
SystolicTotal total_of(std::span<const SystolicRun> runs);

}  // namespace ridge

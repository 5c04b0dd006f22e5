// A program's operations together: one after the other with each result stored, and fused, where only the program's
// inputs and outputs are moved.
#pragma once

#include <optional>
#include <vector>

#include "ridge/roofline/roofs.h"

namespace ridge {

// The operations' FLOPs as if all of them ran at the first one's peak, on whichever unit; peak 0: they cannot be,
// because none is known or one over another is no fraction of whole numbers.
struct WeighedFlops {
  Polynomial flops;
  double peak = 0;  // FLOP/s
};
WeighedFlops weighed_flops(const std::vector<Prediction>& ops);

Result<Prediction> total_of(const std::vector<Prediction>& ops, const Setting& setting);

// None: nothing is kept inside. `work`: of the operations in `apart`, whose total is there.
Result<std::optional<Prediction>> fused_of(const Program& program, const std::vector<Work>& work,
                                           const Explanation& apart, const Setting& setting);

}  // namespace ridge

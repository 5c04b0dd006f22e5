// A program's operations together: one after the other with each result stored, and fused, where only the program's
// inputs and outputs are moved.
#pragma once

#include <optional>
#include <vector>

#include "ridge/roofline/roofs.h"

namespace ridge {

Result<Prediction> total_of(const std::vector<Prediction>& ops, const Setting& setting);

// None: nothing is kept inside. `work`: of the operations in `apart`, whose total is there.
Result<std::optional<Prediction>> fused_of(const Program& program, const std::vector<Work>& work,
                                           const Explanation& apart, const Setting& setting);

}  // namespace ridge

// `assumptions_text`: the assumptions of a report's times (network, masks, numbers that the machine lacks), and from
// which size every product is compute-bound. `memory_text`: the memory section. Both may be empty.
#pragma once

#include <string>

#include "ridge/roofline/prediction.h"

namespace ridge {

std::string assumptions_text(const Explanation& e);
std::string memory_text(const Explanation& e);

}  // namespace ridge

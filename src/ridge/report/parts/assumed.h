// What stands behind a report's times and what the program holds: the network that was assumed, masks, what the machine
// lacks, from where on every product is compute-bound; and the memory section. Both are empty where there is nothing to
// say.
#pragma once

#include <string>

#include "ridge/roofline/prediction.h"

namespace ridge {

std::string assumed_text(const Explanation& e);
std::string memory_text(const Explanation& e);

}  // namespace ridge

// Chains of elementwise functions, fused compared with one kernel per application.
#pragma once

#include <string>
#include <vector>

#include "ridge/report/table.h"
#include "ridge/roofline/pointwise_chain.h"

namespace ridge {

Cells chain_table(const std::vector<PointwiseChain>& chains);  // columns: quantity, fused, unfused
std::string render_chains_json(const std::vector<PointwiseChain>& chains);

}  // namespace ridge

// Chains beside what they would be unfused.
#pragma once

#include <string>
#include <vector>

#include "ridge/report/table.h"
#include "ridge/roofline/chain.h"

namespace ridge {

Cells chain_table(const std::vector<Chain>& chains);  // three columns: what, as one kernel, one kernel an application
std::string render_chains_json(const std::vector<Chain>& chains);

}  // namespace ridge

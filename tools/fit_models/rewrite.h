// Files of data/models keep their lines' names and meanings; a fit replaces the numbers, and who made them of what.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::fit {

// The file with its facts ("# tool: …") replaced and each line below the columns rewritten. Errors: it cannot be read.
Result<std::string> rewritten(const std::string& path, const std::string& facts,
                              const std::function<std::string(const std::string&)>& line_of);
std::vector<std::string> cells_of(const std::string& line);
std::string line_of(const std::vector<std::string>& cells);

}  // namespace ridge::fit

// Rewrites files of data/models: names and meanings of lines stay; a fit replaces the numbers and the provenance.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::fit {

// Returns the file with new header lines ("# tool: …") and each data line rewritten. Errors: it cannot be read.
Result<std::string> rewritten(const std::string& path, const std::string& facts,
                              const std::function<std::string(const std::string&)>& line_of);
std::vector<std::string> cells_of(const std::string& line);
std::string line_of(const std::vector<std::string>& cells);

}  // namespace ridge::fit

// Values of dimensions as a user writes them: -d B=256, and the table of `--table FILE.csv`, whose header names
// dimensions and each of whose rows gives them values.
//   B,D        explains the program once with B = 1, D = 8192, once with B = 256, D = 8192
//   1,8192
//   256,8192
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/symbol/polynomial.h"

namespace ridge {

// Each text is one -d option, "B=256". Errors, of kind usage: what is no whole number below 2^63, a name twice.
Result<Bindings> parse_assignments(const std::vector<std::string>& texts);

// Errors point at the cell: a row of another width, what is no whole number from 1 to 2^63 - 1, a name twice, no row.
Result<std::vector<Bindings>> parse_table(std::string_view csv, const std::string& source);

}  // namespace ridge

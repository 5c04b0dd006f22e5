// Parses values of dimensions: -d B=256, and the table of `--table <file>.csv`. Its header names dimensions; each row
// gives them values.
//   B,D        explains the program with B = 1, D = 8192, then with B = 256, D = 8192
//   1,8192
//   256,8192
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/symbol/polynomial.h"

namespace ridge {

// Parses -d options such as "B=256". Usage errors: not a whole number below 2^63, duplicate name.
Result<Bindings> parse_assignments(const std::vector<std::string>& texts);

// Errors show the cell: wrong number of cells, not a whole number from 1 to 2^63 - 1, duplicate name, no row.
Result<std::vector<Bindings>> parse_table(std::string_view csv, const std::string& source);

}  // namespace ridge

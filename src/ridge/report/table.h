// A table of dimension values, for `--table FILE.csv`: the header names dimensions, each row gives them values.
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

// Errors point at the line: a row of another width, what is no whole number of at least 1, a name twice, no row.
Result<std::vector<Bindings>> parse_table(std::string_view csv, const std::string& source);

// "B=256": one -d option. Errors are of kind usage.
Result<std::pair<std::string, std::int64_t>> parse_assignment(const std::string& text);

}  // namespace ridge

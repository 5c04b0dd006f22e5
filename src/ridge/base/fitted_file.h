// Files of fitted numbers, each number with its unit and meaning: data/models/*.csv. Header lines such as
// "# device: NVIDIA H200" say which tool and timings made them.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/csv.h"
#include "ridge/base/result.h"

namespace ridge {

struct FittedFile {
  std::string source;                                               // Name for messages: "data/models/kernels.csv"
  std::map<std::string, std::string, std::less<>> properties = {};  // Header lines, by the word before the colon
  std::vector<CsvLine> lines = {};                                  // Lines after the line of column names
};
// `text` must outlive the result. Errors: column names other than `columns`, or a line with fewer cells.
Result<FittedFile> parse_fitted_file(std::string_view text, const std::string& source, std::string_view columns);
// Returns a cell as a number.
Result<double> parse_cell(const FittedFile& file, const CsvLine& line, std::size_t cell);

using NamedRows = std::map<std::string, std::vector<double>, std::less<>>;
// Returns the cells [first, first + count) of each line as numbers, by the name in the first cell. Errors: a cell that
// is no number, a name that occurs twice.
Result<NamedRows> read_named_rows(const FittedFile& file, std::size_t first, std::size_t count);

template <class Numbers> struct NamedNumber {
  std::string_view name;
  double Numbers::*member;
};

// Reads one number for each field in `names`. Errors: a name that is missing, repeated or unknown.
template <class Numbers> Result<Numbers> parse_named_numbers(std::span<const NamedNumber<Numbers>> names,
                                                             std::string_view csv, const std::string& source) {
  RIDGE_TRY(file, parse_fitted_file(csv, source, "number,unit,value,origin,meaning"));
  RIDGE_TRY(rows, read_named_rows(file, 2, 1));
  Numbers out{};
  for (const NamedNumber<Numbers>& each : names) {
    const auto row = rows.find(each.name);
    if (row == rows.end()) return input_error(fmt::format("'{}' lacks {}", source, each.name));
    out.*(each.member) = row->second[0];
    rows.erase(row);
  }
  if (!rows.empty()) return input_error(fmt::format("'{}': unknown name {}", source, rows.begin()->first));
  return out;
}

}  // namespace ridge

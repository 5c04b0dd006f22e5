// Reads comma-separated values. Blanks around a cell and empty lines are skipped; CRLF line ends and a UTF-8 byte order
// mark are accepted. Each cell has its line and column for error messages. Quotes (RFC 4180) are not supported, because
// numbers and names need none.
//   "\xEF\xBB\xBFB, D\r\n1,8192\r\n"   is line 1: "B" at column 1, "D" at column 4; line 2: "1" at 1, "8192" at 3
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/error.h"

namespace ridge {

struct CsvCell {
  std::string text;
  int column = 1;  // 1-based, in characters
};

struct CsvLine {
  int number = 1;              // 1-based, empty lines counted
  std::string_view text;       // view into the parsed text
  std::vector<CsvCell> cells;  // at least one
};

std::vector<CsvLine> read_csv(std::string_view text);

// Returns the error with its position set to a cell of `source`.
Error error_at_cell(Error error, const std::string& source, const CsvLine& line, const CsvCell& cell);

}  // namespace ridge

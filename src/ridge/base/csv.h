// Comma-separated values as spreadsheets write them: lines of cells, blanks around a cell left out, empty lines
// skipped, Windows line ends and the mark that some editors put in front of UTF-8 taken for what they are. Each cell
// knows its place, so that a message can point at it. Quotes have no meaning (RFC 4180's are not needed for numbers and
// names).
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
  std::string_view text;       // a part of what was read
  std::vector<CsvCell> cells;  // at least one
};

std::vector<CsvLine> read_csv(std::string_view text);

// The error, pointing at a cell of `source`.
Error placed(Error error, const std::string& source, const CsvLine& line, const CsvCell& cell);

}  // namespace ridge

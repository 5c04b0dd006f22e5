#include "ridge/base/csv.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

std::string format_cells(std::string_view text) {  // "1: B@1 D@4 | 2: 1@1 8192@3"
  std::string out;
  for (const CsvLine& line : read_csv(text)) {
    out += (out.empty() ? "" : " | ") + std::to_string(line.number) + ":";
    for (const CsvCell& cell : line.cells) out += " " + cell.text + "@" + std::to_string(cell.column);
  }
  return out;
}

TEST(Csv, ReadsCellsAndColumns) {
  EXPECT_EQ(format_cells("B, D\n1,8192\n"), "1: B@1 D@4 | 2: 1@1 8192@3");
  EXPECT_EQ(format_cells("é,D\n"), "1: é@1 D@3");
  EXPECT_EQ(format_cells("a,,\n"), "1: a@1 @3 @4");
  EXPECT_EQ(format_cells("a \t, \t,\tb c \n"), "1: a@1 @7 b c@9");
  EXPECT_EQ(format_cells(" \t ,\t\n"), "1: @4 @6");
  EXPECT_EQ(format_cells(""), "");
}

TEST(Csv, SkipsLineEndsByteOrderMarkAndEmptyLines) {
  EXPECT_EQ(format_cells("\xEF\xBB\xBF"
                         "B,D\r\n\r\n \t\r\n1,2"),
            "1: B@1 D@3 | 4: 1@1 2@3");
}

TEST(Csv, UnderlinesOneCharacterOfAnEmptyCell) {
  const auto lines = read_csv("a,,b\n");
  EXPECT_EQ(error_at_cell(input_error("expected a number"), "t.csv", lines[0], lines[0].cells[1]).to_string(),
            "t.csv:1:3: expected a number\n  a,,b\n    ^\n");
}

TEST(Csv, UnderlinesACellInAPrintableLine) {
  const auto lines = read_csv("B,\x01x\r\n");
  EXPECT_EQ(error_at_cell(input_error("expected a name"), "t.csv", lines[0], lines[0].cells[1]).to_string(),
            "t.csv:1:3: expected a name\n  B,?x\n    ^^\n");
}

}  // namespace
}  // namespace ridge

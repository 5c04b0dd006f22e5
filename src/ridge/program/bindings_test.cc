#include "ridge/program/bindings.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(CsvTableParser, ReadsRowsAndUnderlinesErrors) {
  EXPECT_EQ(*parse_table("B, D\r\n1,8192\n\n256,8\n", "t.csv"),
            (std::vector<Bindings>{{{"B", 1}, {"D", 8192}}, {{"B", 256}, {"D", 8}}}));
  const auto error = [](const char* csv) { return parse_table(csv, "t.csv").error().to_string(); };
  EXPECT_EQ(error("B,D\n1,x\n"), "t.csv:2:3: expected a whole number of at least 1 for D, found 'x'\n  1,x\n    ^\n");
  EXPECT_EQ(error("B,D\n1,0\n"), "t.csv:2:3: expected a whole number of at least 1 for D, found '0'\n  1,0\n    ^\n");
  EXPECT_EQ(error("B,D\n1\n"), "t.csv:2:1: expected 2 values, found 1\n  1\n  ^\n");
  EXPECT_EQ(error("B,B\n"), "t.csv:1:3: dimension 'B' appears twice in the header\n  B,B\n    ^\n");
  EXPECT_EQ(error("1,2\n"),
            "t.csv:1:1: expected the name of a dimension, found '1'\n  1,2\n  ^\n"
            "  hint: the first line names the dimensions: B,D\n");
  EXPECT_EQ(error("B\n"),
            "t.csv: expected a header of dimension names and at least one row, found none\n"
            "  hint: B,D\n        1,8192\n");
}

TEST(CsvTableParser, ReadsCrlfAndByteOrderMark) {
  EXPECT_EQ(*parse_table("\xEF\xBB\xBF"
                         "B,D\r\n1,8192\r\n",
                         "t.csv"),
            (std::vector<Bindings>{{{"B", 1}, {"D", 8192}}}));
  EXPECT_EQ(parse_table("\xEF\xBB\xBF"
                        "B\r\n99999999999999999999\r\n",
                        "t.csv")
                .error()
                .to_string(),
            "t.csv:2:1: expected a whole number below 2^63 for B, found '99999999999999999999'\n"
            "  99999999999999999999\n  ^^^^^^^^^^^^^^^^^^^^\n");
}

TEST(Assignments, AreReadAndDuplicatesRejected) {
  EXPECT_EQ(*parse_assignments({"B=256", "d_ff=9223372036854775807"}),
            (Bindings{{"B", 256}, {"d_ff", 9223372036854775807}}));
  const auto error = [](const std::vector<std::string>& texts) { return parse_assignments(texts).error().message; };
  EXPECT_EQ(error({"B=1", "B=1"}), "dimension 'B' is given twice, as 1 and as 1");
  EXPECT_EQ(error({"B=9223372036854775808"}), "expected a whole number below 2^63 for B, found '9223372036854775808'");
  EXPECT_EQ(error({"B=-99999999999999999999"}), "expected a whole number for B, found '-99999999999999999999'");
  EXPECT_EQ(error({"B="}), "expected a whole number for B, found ''");
  EXPECT_EQ(error({"=1"}), "expected NAME=VALUE after -d, found '=1'");
}

}  // namespace
}  // namespace ridge

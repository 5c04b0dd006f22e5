#include "ridge/report/table.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(FlattenJson, gives_each_nested_number_a_column) {
  const std::string json =
      R"({"schema": "s", "rows": [{"op": "a", "tile": {"m": 64, "n": 8}, "times": [{"library": "ours", "median_s": 1e-3},
          {"library": "theirs", "median_s": 2e-3}]}, {"op": "b, c", "tile": null, "times": [{"library": "theirs",
          "median_s": 0.5}], "right": false, "list": [3, 4]}]})";
  const Cells cells = flatten_json(json, "rows");
  EXPECT_EQ(csv_table(cells),
            "op,tile.m,tile.n,times.ours.library,times.ours.median_s,times.theirs.library,times.theirs.median_s,"
            "right,list.0,list.1\n"
            "a,64,8,ours,0.001,theirs,0.002,,,\n"
            "\"b, c\",,,,,theirs,0.5,false,3,4\n");
  EXPECT_EQ(number_columns(cells), (std::vector<bool>{false, true, true, false, true, false, true, false, true, true}));
}

TEST(FlattenJson, makes_a_row_of_each_document) {
  EXPECT_EQ(csv_table(flatten_json(
                "{\"schema\":\"s\",\"verb\":\"v\",\"a\":1,\"provenance\":{}}\n{\"a\":2,\"b\":\"}\\n{\"}\n", "")),
            "a,b\n1,\n2,\"}\n{\"\n");
  EXPECT_EQ(csv_table(flatten_json("{\n  \"a\": {\n    \"b\": -1.5\n  }\n}\n", "")), "a.b\n-1.5\n");
  EXPECT_EQ(csv_table(flatten_json("{}", "rows")), "\n");
}

const Cells machines{{"name", "rate", "size", "title"},
                     {"h100", "3.350 TB/s", "80.00 GB", "a large processor of the year 2022"},
                     {"tpu", "819.0 GB/s", "16.00 GB", "another"}};
const TableLayout layout{.right = {false, true, true, false}, .omit_first = {"size"}};

TEST(TextTable, IsWholeWithoutALimit) {
  const std::string whole =
      "name        rate      size  title\n"
      "h100  3.350 TB/s  80.00 GB  a large processor of the year 2022\n"
      "tpu   819.0 GB/s  16.00 GB  another\n";
  EXPECT_EQ(text_table(machines, layout, {}), whole);
  EXPECT_EQ(text_table(machines, layout, {.line_width = 62}), whole);
  EXPECT_EQ(text_table(machines, layout, {.color = true}),
            "\x1b[1m" + whole.substr(0, 33) + "\x1b[0m" + whole.substr(33));
}

TEST(TextTable, CutsATextColumnBeforeItLeavesOneOut) {
  EXPECT_EQ(text_table(machines, layout, {.line_width = 61}),
            "name        rate      size  title\n"
            "h100  3.350 TB/s  80.00 GB  a large processor of the year ...\n"
            "tpu   819.0 GB/s  16.00 GB  another\n"
            "(cut: title; --csv or COLUMNS=0 shows all)\n");
  EXPECT_EQ(text_table(machines, layout, {.line_width = 47}),
            "name        rate  title\n"
            "h100  3.350 TB/s  a large processor of the y...\n"
            "tpu   819.0 GB/s  another\n"
            "(left out: size; cut: title; --csv or COLUMNS=0\n"
            "shows all)\n");
}

TEST(TextTable, LeavesOutTheRightmostColumnsLast) {
  const Cells numbers{{"n", "first", "second", "third", "fourth"}, {"1", "10000", "200000", "30000", "400000"}};
  const std::vector<bool> right(5, true);
  EXPECT_EQ(text_table(numbers, {.right = right}, {.line_width = 24}),
            "n  first  second  third\n1  10000  200000  30000\n(left out: fourth; --csv\nor COLUMNS=0 shows all)\n");
  EXPECT_EQ(text_table(numbers, {.right = right, .omit_first = {"first"}, .is_in_csv = false}, {.line_width = 17}),
            "n  second  third\n1  200000  30000\n(left out: first,\nfourth; COLUMNS=0\nshows all)\n");
  EXPECT_EQ(text_table(numbers, {.right = right}, {.line_width = 5}).substr(0, 9), "n  first\n")
      << "two columns remain, although they do not fit";
  const Cells kernels{{"name", "tile", "bytes"}, {"sm90_128x128x64", "128x128x64", "2048"}};
  EXPECT_EQ(
      text_table(kernels, {.right = {false, true, true}}, {.line_width = 30}),
      "name                   tile\nsm90_128x128x64  128x128x64\n(left out: bytes; --csv or\nCOLUMNS=0 shows all)\n")
      << "a name is not cut while columns can be left out";
  const Cells chains{{"", "fused", "apart"}, {"bytes of each element", "8", "16 and more"}};
  EXPECT_EQ(text_table(chains, {.right = {false, true, false}}, {.line_width = 36}),
            "                  fused  apart\nbytes of each...      8  16 and more\n(cut: notes; --csv or "
            "COLUMNS=0\nshows all)\n")
      << "both values remain";
}

TEST(TextTable, HasNoHeaderIfItsColumnsAreNamed) {
  const Cells rows{{"B >= 221", "compute-bound", "220.38 = r*D*F/(D*F - r*(D + F))"}};
  const TableLayout named{.column_names = {"size", "limiter", "derivation"}, .is_in_csv = false};
  EXPECT_EQ(text_table(rows, named, {.color = true, .line_width = 48}),
            "B >= 221  compute-bound  220.38 = r*D*F/(D*F ...\n");
  EXPECT_EQ(text_table(rows, named, {.line_width = 40}),
            "B >= 221  compute-bound\n(left out: derivation; COLUMNS=0 shows\nall)\n");
}

TEST(WrapWords, BreaksAtBlanks) {
  EXPECT_EQ(wrap_words("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrap_words("one two three", 8, 2), "one two\n  three");
  EXPECT_EQ(wrap_words("incomprehensible word", 4), "incomprehensible\nword");
  EXPECT_EQ(wrap_words("one two three", 0), "one two three");
  EXPECT_EQ(wrap_words("", 5), "");
}

}  // namespace
}  // namespace ridge

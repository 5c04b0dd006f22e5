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

}  // namespace
}  // namespace ridge

// Compares with two worked problems (s1_11, s1_12), and with a line-by-line count of every small shape.
#include "ridge/roofline/memory_lines.h"

#include <gtest/gtest.h>

#include <set>

#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

TEST(MemoryLines, four_columns_touch_4_lines_of_4x12_and_7_lines_of_4x13) {
  EXPECT_EQ(count_lines({.rows = 4, .leading = 12, .width = 4, .line_bytes = 16}), (LineCount{4, 4, 0}));  // s1_11
  EXPECT_EQ(count_lines({.rows = 4, .leading = 13, .width = 4, .line_bytes = 16}), (LineCount{7, 4, 3}));  // s1_12
  EXPECT_EQ(pad_leading_dimension(13, 32, 16), 16);
  EXPECT_EQ(count_lines({.rows = 4, .leading = 16, .width = 4, .line_bytes = 16}), (LineCount{4, 4, 0}));
}

LineCount count_lines_directly(const TileAccess& a) {
  std::set<std::int64_t> touched;
  LineCount count;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    std::set<std::int64_t> of_row;
    for (std::int64_t bit = (row * a.leading + a.first) * a.element_bits;
         bit < (row * a.leading + a.first + a.width) * a.element_bits; ++bit)
      of_row.insert(bit / 8 / a.line_bytes);
    touched.insert(of_row.begin(), of_row.end());
    const std::int64_t min_lines = (a.width * a.element_bits + 8 * a.line_bytes - 1) / (8 * a.line_bytes);
    count.rows_with_extra_line += static_cast<std::int64_t>(of_row.size()) > min_lines;
    count.min_lines += min_lines;
  }
  count.lines = static_cast<std::int64_t>(touched.size());
  return count;
}

TEST(MemoryLines, equal_a_line_by_line_count) {
  int checked = 0;
  for (const std::int64_t bits : {4, 8, 16, 32})
    for (const std::int64_t line : {8, 32})
      for (std::int64_t leading = 1; leading < 23; ++leading)
        for (std::int64_t width = 1; width <= leading; width += 3)
          for (const std::int64_t rows : {1, 2, 7, 64, 801}) {
            const TileAccess a{rows, leading, (leading - width) / 2, width, bits, line};
            ASSERT_EQ(count_lines(a), count_lines_directly(a))
                << rows << "x" << leading << " " << width << " " << bits << " " << line;
            ++checked;
          }
  EXPECT_GT(checked, 3000);
}

TEST(MemoryLines, count_every_tile_and_report_the_gain_of_padding) {
  Machine machine = testing::make_test_machine({}, 1, 1);
  machine.numbers.emplace("line_bytes", testing::make_number(16));
  const Program program = parse("x: f32[N, M]\ny: f32[N, M] = cos(x)").value();
  const auto lines =
      analyze_tile_alignment(program, machine, {{"N", 4}, {"M", 13}}, {.columns = 4, .leading = {}, .line_bytes = {}});
  ASSERT_TRUE(lines.ok()) << lines.error().to_string();
  const OperandLines& x = lines->at(0);
  EXPECT_EQ(x.tile, (LineCount{7, 4, 3}));
  EXPECT_EQ(x.padded_stride, 16);
  EXPECT_EQ(x.padded_tile, (LineCount{4, 4, 0}));
  EXPECT_EQ(x.padding_bytes, 4 * 3 * 4);
  // Tiles 0..3, 4..7, 8..11 take 7, 7 and 7 lines, column 12 takes 4: 25 of 16 B for 208 B.
  EXPECT_DOUBLE_EQ(x.traffic, 25 * 16 / 208.0);
  EXPECT_DOUBLE_EQ(x.padded_traffic, 16 * 16 / 208.0);
}

TEST(MemoryLines, reject_unknown_tensors_and_lines) {
  const Program program = parse("x: f32[N, M]\ny: f32[N, M] = cos(x)").value();
  const Machine machine = testing::make_test_machine({}, 1, 1);
  const auto error = [&](const Bindings& dims, const LinesRequest& request) {
    const auto lines = analyze_tile_alignment(program, machine, dims, request);
    return lines ? std::string("none") : lines.error().to_string();
  };
  const Bindings dims{{"N", 4}, {"M", 13}};
  EXPECT_EQ(error(dims, {.columns = 4, .leading = {}, .line_bytes = {}}),
            "machine 'test' has no line_bytes on record\n  hint: give them: --line-bytes 128\n");
  EXPECT_EQ(error(dims, {.columns = 4, .leading = {}, .line_bytes = 0}),
            "expected a line of 1 to 4096 bytes, found 0\n");
  EXPECT_EQ(error(dims, {.columns = 4, .leading = {{"z", 16}}, .line_bytes = 16}), "the program has no tensor 'z'\n");
  EXPECT_EQ(error(dims, {.columns = 4, .leading = {{"x", 12}}, .line_bytes = 16}),
            "expected a leading dimension of at least the 13 columns of x, found 12\n");
  EXPECT_EQ(error({{"N", 4}}, {.columns = 4, .leading = {}, .line_bytes = 16}),
            "dimension 'M' has no value\n  hint: give it one with -d M=…\n");
  EXPECT_EQ(error({{"N", 1ll << 39}, {"M", 13}}, {.columns = 4, .leading = {}, .line_bytes = 16}),
            "expected fewer than 2^40 elements in x, found 549755813888 rows of 13\n  hint: use smaller sizes\n");
}

}  // namespace
}  // namespace ridge

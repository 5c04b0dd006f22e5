// A sweep's point equals explain()'s report of the same sizes, for random programs on random machines; parsing of
// ranges.
#include "ridge/roofline/sweep.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "ridge/roofline/testing/random_program.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

std::vector<std::int64_t> values(const std::string& text) { return parse_range(text)->values; }

TEST(Range, parses_a_value_a_list_steps_and_factors) {
  using Values = std::vector<std::int64_t>;
  EXPECT_EQ(values("B=256"), Values{256});
  EXPECT_EQ(values("B=1,8,64"), (Values{1, 8, 64}));
  EXPECT_EQ(values("B=3..6"), (Values{3, 4, 5, 6}));
  EXPECT_EQ(values("B=1..10:3"), (Values{1, 4, 7, 10}));
  EXPECT_EQ(values("B=1..9:*2"), (Values{1, 2, 4, 8}));
  EXPECT_EQ(values("B=7,1..4:*2"), (Values{7, 1, 2, 4}));
  EXPECT_EQ(values("B=9223372036854775806..9223372036854775807"), (Values{INT64_MAX - 1, INT64_MAX}));
}

TEST(Range, rejects_other_forms) {
  for (const char* text :
       {"B", "=1", "B=", "B=0", "B=-1", "B=1..", "B=..4", "B=1,,2", "B=1.5", "B=1..4:", "B=x", "B=9223372036854775808"})
    EXPECT_EQ(parse_range(text).error().to_string(), "expected NAME=VALUES, found '" + std::string(text) +
                                                         "'\n  hint: -d B=256, -d B=1,8,64, -d B=1..4096:*2, or -d "
                                                         "B=128..512:128\n");
  EXPECT_EQ(parse_range("B=4..1").error().message,
            "expected values of B, found that 4..1 is empty: its end is below its start");
  for (const char* text : {"B=1..4:0", "B=1..4:*1"})
    EXPECT_EQ(parse_range(text).error().message, "expected values of B, found that " + std::string(text).substr(2) +
                                                     " is infinite: a factor is 2 or more, a step 1 or more");
  EXPECT_EQ(parse_range("B=1..16777217").error().to_string(), "expected at most 16777216 values of B, found more\n");
}

TEST(Sweep, each_point_equals_explain) {
  int compared = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    testing::RandomProgram random(seed);
    const std::vector<DType> dtypes{DType::bf16, DType::int8, DType::int4};
    const std::string text = seed % 2 ? random.pointwise(dtypes) : random.contraction(dtypes);
    const Program program = parse(text).value();
    const Machine machine = testing::make_test_machine({{DType::bf16, 64}, {DType::int8, 128}, {DType::int4, 256}}, 16,
                                                       seed % 3 ? 1 : 1.37);
    std::vector<DimensionValues> ranges;
    for (const std::string& dim : program.dim_names()) {
      DimensionValues range{dim, {}};
      for (int i = 0; i < 1 + random.below(3); ++i) range.values.push_back(random.size(3000));
      ranges.push_back(range);
    }
    const auto line = sweep_line(program, machine, ranges);
    ASSERT_TRUE(line.ok()) << text << line.error().to_string();
    const Sweep sweep{text, ranges, {}};
    for (std::size_t i = 0; i < line->points.size(); ++i) {
      Bindings sizes;
      for (std::size_t r = 0; r < ranges.size(); ++r) sizes[ranges[r].dim] = sweep.size_at(i, r);
      const Explanation e = explain(program, machine, sizes).value();
      const SweepPoint& point = line->points[i];
      EXPECT_EQ(point.flops, *e.total.flops) << text;
      EXPECT_EQ(point.bytes, *e.total.bytes) << text;
      EXPECT_DOUBLE_EQ(point.time_lower_s, *e.total.time_lower_s) << text;
      EXPECT_DOUBLE_EQ(point.time_upper_s, *e.total.time_upper_s) << text;
      EXPECT_EQ(point.limiter, *e.total.limiter) << text;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(Sweep, uses_defaults_and_marks_changes_of_the_limiter) {
  const Program program = parse("dims D = 64, F = 4*D\nx: bf16[B, D]   w: bf16[D, F]\ny: bf16[B, F] = x * w").value();
  const Machine machine = testing::make_test_machine({{DType::bf16, 8}}, {}, 1);
  const auto line = sweep_line(program, machine, {*parse_range("D=64,128"), *parse_range("B=1..64")});
  ASSERT_TRUE(line.ok()) << line.error().to_string();
  ASSERT_EQ(line->points.size(), 128u);
  std::vector<std::size_t> crossed;
  for (std::size_t i = 0; i < line->points.size(); ++i)
    if (line->points[i].limiter_changed) crossed.push_back(i);
  EXPECT_EQ(crossed, (std::vector<std::size_t>{9, 64 + 8}));  // B >= 9.48 at D = 64, B >= 8.68 at 128
  EXPECT_EQ(line->points[127].flops, 2ll * 64 * 128 * 512);
}

// Equal to explain(), including network and uneven shards.
TEST(Sweep, of_one_chip_equals_explain) {
  const Program program =
      parse("dims D = 96, F = 2*D + G, G = 3*E\nx: bf16[B, D]   w: bf16[D, F]\nu[B, F] = x * w\ny: bf16[B, F] = cos(u)")
          .value();
  Machine machine = testing::make_test_machine({{DType::bf16, 64}}, 16, 8);
  machine.links.push_back({.name = "ici", .bandwidth = testing::make_number(1)});
  const std::vector<DimensionValues> ranges{*parse_range("E=1,5"), *parse_range("D=90..96"),
                                            *parse_range("B=1,3,64,1000")};
  std::set<Limiter> seen;
  for (const std::int64_t chips : {1, 2, 3, 4}) {
    const DimensionSplit cut{"D", chips};
    const auto line = sweep_line(program, machine, ranges, cut);
    ASSERT_TRUE(line.ok()) << line.error().to_string();
    const Sweep sweep{"", ranges, {}};
    for (std::size_t i = 0; i < line->points.size(); ++i) {
      Bindings sizes;
      for (std::size_t r = 0; r < ranges.size(); ++r) sizes[ranges[r].dim] = sweep.size_at(i, r);
      const auto e = explain(program, machine, sizes, cut);
      const SweepPoint& point = line->points[i];
      ASSERT_TRUE(e.ok());
      EXPECT_EQ(line->reasons[point.reason], "");
      EXPECT_DOUBLE_EQ(point.time_network_s, e->total.time_network_s.value_or(0));
      EXPECT_DOUBLE_EQ(point.bytes_sent, e->total.bytes_sent.value_or(0));
      EXPECT_EQ(point.flops, e->total.flops);
      EXPECT_EQ(point.bytes, e->total.bytes);
      EXPECT_DOUBLE_EQ(point.time_lower_s, *e->total.time_lower_s);
      EXPECT_DOUBLE_EQ(point.time_upper_s, *e->total.time_upper_s);
      EXPECT_EQ(point.limiter, e->total.limiter);
      seen.insert(point.limiter);
    }
  }
  EXPECT_EQ(seen.size(), 3u);
}

// The pairs of a mask are counted again at every point, also if one dimension is derived from the other.
TEST(Sweep, of_a_masked_program_equals_explain) {
  const std::string text =
      "dims T = S\nq: bf16[S, E]   k: bf16[T, E]\ns[S, T] = q * k\n"
      "p: bf16[S, T] = softmax(where(index(T) <= index(S), s, -inf) over T)";
  const Program program = parse(text).value();
  const Machine machine = testing::make_test_machine({{DType::bf16, 64}}, 16, 8);
  const std::vector<DimensionValues> tied{*parse_range("E=1,5"), *parse_range("S=1..40")},
      free{*parse_range("E=3"), *parse_range("T=1,7,30"), *parse_range("S=1..20")};
  for (const std::vector<DimensionValues>& ranges : {tied, free}) {
    const auto line = sweep_line(program, machine, ranges);
    ASSERT_TRUE(line.ok()) << line.error().to_string();
    const Sweep sweep{"", ranges, {}};
    for (std::size_t i = 0; i < line->points.size(); ++i) {
      Bindings sizes;
      for (std::size_t r = 0; r < ranges.size(); ++r) sizes[ranges[r].dim] = sweep.size_at(i, r);
      const auto e = explain(program, machine, sizes);
      ASSERT_TRUE(e.ok()) << e.error().to_string();
      EXPECT_EQ(line->points[i].flops, e->total.flops);
      EXPECT_DOUBLE_EQ(line->points[i].time_lower_s, *e->total.time_lower_s);
      EXPECT_EQ(line->points[i].limiter, e->total.limiter);
    }
  }
}

TEST(Sweep, of_a_sharded_program_accepts_one_mesh_size) {
  const Program program = parse("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]").value();
  Machine machine = testing::make_test_machine({{DType::bf16, 64}}, {}, 1);
  machine.links.push_back({.name = "ici", .bandwidth = testing::make_number(1)});
  const auto line = [&](const std::string& mesh) {
    return sweep_line(program, machine,
                      {*parse_range(mesh), *parse_range("B=8"), *parse_range("F=8"), *parse_range("D=8..12")});
  };
  const auto two = line("X=2");
  ASSERT_TRUE(two.ok()) << two.error().to_string();
  EXPECT_EQ(two->points[0].flops, 8 * 8 * 8);
  EXPECT_EQ(two->points[1].flops, 2 * 8 * 8 * 5);  // D = 9: five on one device, four on the other
  EXPECT_EQ(two->points[0].limiter, Limiter::memory);
  EXPECT_EQ(line("X=2,4").error().to_string(),
            "expected one size of the mesh axis X, found 2\n"
            "  hint: without a mesh in the program, --split N=1,2,4 sweeps over chips\n");
}

TEST(Sweep, reports_invalid_derived_sizes) {
  std::string text = "dims D0 = 1";
  for (int i = 1; i < 60; ++i)
    text += ", D" + std::to_string(i) + " = D" + std::to_string(i - 1) + " * D" + std::to_string(i - 1);
  const Program powers = parse(text + "\nx: f32[D59]\ny: f32[D59] = cos(x)").value();
  const auto line = sweep_line(powers, testing::make_test_machine({}, 1, 1), {*parse_range("D0=1,2")});
  ASSERT_TRUE(line.ok()) << line.error().to_string();
  EXPECT_EQ(line->points[0].flops, 1);
  EXPECT_EQ(line->points[1].flops, -1);
  EXPECT_EQ(line->reasons[line->points[1].reason], "a size exceeds 2^63");
  const Program less = parse("dims F = D - 5\nx: f32[F]\ny: f32[F] = cos(x)").value();
  const auto sizes = sweep_line(less, testing::make_test_machine({}, 1, 1), {*parse_range("D=4..7")});
  EXPECT_EQ(sizes->points[0].flops, -1);
  EXPECT_EQ(sizes->points[1].flops, -1);
  EXPECT_EQ(sizes->reasons[sizes->points[1].reason], "F = D - 5 is below 1");
  EXPECT_EQ(sizes->points[2].flops, 1);
  EXPECT_EQ(sizes->points[3].flops, 2);
}

TEST(Sweep, reports_sizes_that_are_no_multiple_of_blocks) {
  const Program scaled = parse("w: mxfp4[F, D]\ny: f32[F] = sum(w over D)").value();
  Machine machine = testing::make_test_machine({}, 1, 1);
  machine.links.push_back({.name = "link", .bandwidth = testing::make_number(1)});
  const std::vector<DimensionValues> sizes{*parse_range("F=3"), *parse_range("D=32..128:32,48")};
  const auto whole = sweep_line(scaled, machine, sizes);
  ASSERT_TRUE(whole.ok()) << whole.error().to_string();
  EXPECT_EQ(whole->points[1].bytes, 3 * 2 * 17 + 3 * 4);
  EXPECT_EQ(whole->points[4].flops, -1);
  EXPECT_EQ(whole->reasons[whole->points[4].reason], "blocks of w = D/32 is not a whole number of at least 1");
  const auto halves = sweep_line(scaled, machine, sizes, DimensionSplit{"D", 2});
  ASSERT_TRUE(halves.ok()) << halves.error().to_string();
  EXPECT_EQ(halves->points[0].flops, -1);
  EXPECT_EQ(halves->points[1].flops, 3 * 32);
}

TEST(Sweep, reports_counts_out_of_range_and_missing_peaks) {
  const Program program = parse("x: f32[N]\ny: f32[N] = cos(x)").value();
  const auto line =
      sweep_line(program, testing::make_test_machine({}, 1, 1), {*parse_range("N=8,2305843009213693952")});
  EXPECT_EQ(line->points[0].flops, 8);
  EXPECT_EQ(line->points[1].bytes, Count{2305843009213693952} * 8);  // beyond 2^63, exact
  const Program cube = parse("x: f32[A, B, C]\ny: f32[A, B, C] = cos(x)").value();
  const auto large = sweep_line(cube, testing::make_test_machine({}, 1, 1),
                                {*parse_range("A=1000000000000"), *parse_range("B=1000000000000"),
                                 *parse_range("C=999999999999,100000000000000")});
  EXPECT_EQ(large->points[0].flops, Count{1000000000000} * 1000000000000 * 999999999999);
  EXPECT_EQ(large->points[1].flops, -1);
  EXPECT_EQ(large->reasons[large->points[1].reason], "a count exceeds 10^38");
  const auto unknown = sweep_line(program, testing::make_test_machine({}, {}, 1), {*parse_range("N=8")});
  EXPECT_EQ(unknown->points[0].bytes, 64);
  EXPECT_EQ(unknown->points[0].time_lower_s, 64);
  EXPECT_EQ(unknown->reasons[unknown->points[0].reason], "");
  EXPECT_EQ(unknown->missing, "vector f32 peak of test");
}

TEST(Sweep, rejects_invalid_ranges) {
  const Program program = parse("bf16[B, D] * bf16[D, F] -> bf16[B, F]").value();
  const Machine machine = testing::make_test_machine({{DType::bf16, 8}}, {}, 1);
  const auto error = [&](const std::vector<std::string>& texts) {
    std::vector<DimensionValues> ranges;
    for (const std::string& text : texts) ranges.push_back(*parse_range(text));
    const auto line = sweep_line(program, machine, ranges);
    return line ? std::string("none") : line.error().to_string();
  };
  EXPECT_EQ(error({"B=1", "D=1"}),
            "dimension 'F' has no value\n  hint: give it one or several: -d F=256, -d F=1..4096:*2\n");
  EXPECT_EQ(error({"B=1", "B=2"}), "dimension 'B' is given twice\n  hint: give each dimension once\n");
}

}  // namespace
}  // namespace ridge

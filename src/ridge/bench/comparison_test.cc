// Turns, ratios, text and JSON of comparisons with made-up times. RIDGE_UPDATE_GOLDENS=1 in the environment rewrites
// tests/golden/bench_*.json.
#include "ridge/bench/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "ridge/base/file.h"
#include "ridge/bench/bench.h"

namespace ridge {
namespace {

TEST(Comparison, CompetitorsTakeTurnsAndADifferentOneStartsEachRound) {
  std::vector<Competitor> competitors{{.name = "ridge"}, {.name = "other"}, {.name = "third"}};
  competitors[1].is_supported = false;
  std::vector<std::size_t> calls;
  const auto time_call = [&](std::size_t i) -> Result<double> {
    calls.push_back(i);
    return static_cast<double>(calls.size());
  };
  ASSERT_TRUE(warm_up(competitors, 0, time_call));
  EXPECT_THAT(calls, testing::ElementsAre(0, 2));
  ASSERT_TRUE(time_in_turns(competitors, 2, time_call));
  EXPECT_THAT(calls, testing::ElementsAre(0, 2, 0, 2, 2, 0));
  EXPECT_THAT(competitors[0].samples, testing::ElementsAre(3, 6));
  EXPECT_THAT(competitors[1].samples, testing::ElementsAre());
  EXPECT_THAT(competitors[2].samples, testing::ElementsAre(4, 5));
}

TEST(Comparison, AFailedCallEndsTheTiming) {
  std::vector<Competitor> competitors{{.name = "ridge"}};
  const auto fail = [](std::size_t) -> Result<double> { return absent_error("no device"); };
  EXPECT_EQ(time_in_turns(competitors, 1, fail).error().message, "no device");
  EXPECT_EQ(warm_up(competitors, 1, fail).error().message, "no device");
}

TEST(Comparison, TheRatioIsTheMedianOfTheRoundsWithTheFastestOther) {
  ComparisonRow row;
  row.competitors = {{.name = "ridge", .samples = {1, 2, 4}},
                     {.name = "slow", .samples = {9, 9, 9}},
                     {.name = "fast", .samples = {2, 2, 2}},
                     {.name = "absent", .is_supported = false}};
  EXPECT_EQ(find_fastest_other(row), 2u);
  set_ratio(row, 2);
  EXPECT_EQ(row.best, "fast");
  EXPECT_EQ(row.ratio.median, 1);
  EXPECT_EQ(row.ratio.min, 0.5);
  EXPECT_EQ(row.ratio.max, 2);
  row.competitors.resize(1);
  EXPECT_EQ(find_fastest_other(row), 0u);
}

// Compares the JSON with a file, which tests/schema_test.py validates.
void expect_golden(const std::string& name, const Comparison& comparison) {
  const std::string path = std::string(RIDGE_SOURCE_DIR) + "/tests/golden/" + name;
  Json json = Json::parse(comparison_json(comparison));
  json["version"] = json["commit"] = "test";
  const std::string text = json.dump(1) + "\n";
  if (std::getenv("RIDGE_UPDATE_GOLDENS") != nullptr) {
    ASSERT_TRUE(write_file(path, text));
  }
  const auto golden = read_file(path);
  ASSERT_TRUE(golden) << golden.error().to_string();
  EXPECT_EQ(text, *golden);
}

Comparison make_cpu_products() {
  const BenchmarkShape shape{"nn", DType::f32, DType::f32, 10, 10, 10};
  Comparison out{.benchmark = "matmul"};
  set_cpu_product_columns(out, {shape});
  out.device = "A test machine, one core";
  out.day = "2026-01-02";
  out.threads = 1;
  out.rounds = 3;
  ComparisonRow row{.labels = shape_labels(shape)};
  row.competitors = {{.name = "ridge", .samples = {1e-6, 1e-6, 2e-6}, .flops = 2000, .max_error = 1e-8},
                     {.name = "openblas", .samples = {2e-6, 2e-6, 3e-6}, .flops = 2000, .max_error = 1e-8},
                     {.name = "onednn", .is_supported = false}};
  set_ratio(row, 1);
  row.numbers["fraction_of_peak"] = 0.5;
  out.rows = {row};
  out.settings = {{"machine", "cpu"}, {"libraries", {"ridge (plain)"}}, {"removed_environment", {"OMP_NUM_THREADS"}}};
  out.notes = {"library: ridge (plain)", "removed from the environment: OMP_NUM_THREADS"};
  return out;
}

TEST(ComparisonReport, PrintsALinePerProductThenTheClasses) {
  EXPECT_EQ(format_comparison(make_cpu_products()),
            "op  dtype  out   m   n   k  ridge  openblas  onednn  ratio    low   high  of peak\n"
            "nn  f32    f32  10  10  10    2.0       1.0       -  2.000  1.500  2.000    50.0%\n"
            "\n"
            "GFLOP/s, median of 3 rounds; ratio: the fastest other library's time over ridge's\n"
            "class      rows  geometric mean  percentile 5  worst\n"
            "f32 all       1           2.000         2.000  2.000\n"
            "f32 M > 8     1           2.000         2.000  2.000\n"
            "A test machine, one core, 1 thread, 2026-01-02\n"
            "library: ridge (plain)\n"
            "removed from the environment: OMP_NUM_THREADS\n");
  expect_golden("bench_cpu_products.json", make_cpu_products());
}

TEST(ComparisonReport, JsonReplacesInvalidUtf8) {
  Comparison comparison = make_cpu_products();
  comparison.settings["libraries"] = {"BLAS \xff"};
  EXPECT_EQ(Json::parse(comparison_json(comparison))["libraries"][0], "BLAS \xEF\xBF\xBD");
}

TEST(ComparisonReport, SummarizesProductsOnACpuByDtypeAndRows) {
  std::vector<BenchmarkShape> shapes;
  for (const int m : {1, 64, 128}) shapes.push_back({"nn", m == 1 ? DType::bf16 : DType::f32, DType::f32, m, 8, 8});
  Comparison comparison{.benchmark = "matmul"};
  set_cpu_product_columns(comparison, shapes);
  for (std::size_t i = 0; i < 3; ++i)
    comparison.rows.push_back({.labels = shape_labels(shapes[i]), .ratio = {.median = std::array{4.0, 1.0, 2.0}[i]}});
  for (ComparisonRow& row : comparison.rows) row.competitors = {{.name = "ridge", .samples = {1}}};
  const Json classes = Json::parse(comparison_json(comparison))["classes"];
  std::vector<std::string> names;
  for (const Json& each : classes) names.push_back(each["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"bf16 all", "bf16 M <= 8", "f32 all", "f32 M > 8"}));
  EXPECT_EQ(classes[0]["geometric_mean"], 4);
  EXPECT_NEAR(classes[2]["geometric_mean"], std::sqrt(2.0), 1e-12);
  EXPECT_EQ(classes[2]["worst"], 1);
  EXPECT_EQ(classes[2]["rows"], 2);
}

ComparisonRow make_device_product(std::int64_t m, std::int64_t n, double ratio) {
  const BenchmarkShape shape{"linear", DType::bf16, DType::bf16, m, n, 64};
  ComparisonRow row{.labels = shape_labels(shape)};
  row.competitors = {{.name = "ridge", .samples = {1e-6}, .flops = shape.flops()},
                     {.name = "best of 8", .samples = {ratio * 1e-6}, .flops = shape.flops()},
                     {.name = "first", .samples = {ratio * 1e-6}, .flops = shape.flops()}};
  set_ratio(row, 1);
  const double peak = n == 63 ? 0 : 1e5 * ratio;
  row.numbers = {
      {"ours_s", {{"median", 1e-6}, {"min", 1e-6}, {"max", 1e-6}, {"runs", 1}}},
      {"best_heuristic", 2},
      {"ratio_first", ratio},
      {"predicted_s", 1.1e-6},
      {"plan", {{"kernel", "sm90_plain"}, {"split", 1}, {"split_mode", "split_k"}, {"waves", 1}, {"copies", 0}}},
      {"sm_hz", 1e9},
      {"flops_per_cycle", positive_or_null(peak)},
      {"per_cycle", fraction_of_cycle_peak(shape.flops(), 1e-6, 1e9, peak)},
      {"right", n != 63},
      {"worst_error", 0.25}};
  return row;
}

Comparison make_device_products() {
  Comparison out{.benchmark = "matmul"};
  set_device_product_columns(out);
  out.device = "NVIDIA H200";
  out.day = "2026-01-02";
  out.driver = 13000;
  out.rounds = 1;
  out.settings["baseline"] = {{"library", "cuBLASLt"}, {"version", "13.1.0"}, {"heuristics", 8}};
  out.settings["passed_over"] = 1;
  out.clocks_after = DeviceClocks{1.9e9, 1.98e9, 3.2e9, 312, {"power limit"}};
  out.rows = {make_device_product(64, 64, 2), make_device_product(64, 64, 0.5), make_device_product(4096, 63, 4)};
  return out;
}

TEST(ComparisonReport, SummarizesProductsOnADeviceBySize) {
  const Comparison comparison = make_device_products();
  const Json json = Json::parse(comparison_json(comparison)), &classes = json["classes"];
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(classes[0]["name"], "M <= 128");
  EXPECT_DOUBLE_EQ(classes[0]["geometric_mean"], 1);
  EXPECT_EQ(classes[0]["worst"], 0.5);
  EXPECT_EQ(classes[1]["name"], "n or k not a multiple of 8");
  EXPECT_EQ(classes[1]["wrong"], 1);
  EXPECT_TRUE(classes[1]["per_cycle"].is_null());
  EXPECT_DOUBLE_EQ(classes[0]["per_cycle"], 2.0 * 64 * 64 * 64 / 1e8);  // geometric mean of a half and twice
  EXPECT_EQ(classes[2]["rows"], 3);
  EXPECT_NEAR(classes[2]["prediction_error"], 0.1, 1e-9);
  EXPECT_TRUE(json["clocks"]["before"].is_null());
  expect_golden("bench_device_products.json", comparison);
}

TEST(ComparisonReport, MarksARowWithWrongResults) {
  EXPECT_EQ(format_comparison(make_device_products()),
            "op      dtype  out      m   n   k     ridge  best of 8     first  ratio    low   high  per cycle  "
            "predicted  kernel      split\n"
            "linear  bf16   bf16    64  64  64  1.000 us   2.000 us  2.000 us  2.000  2.000  2.000       0.3%   1.100 "
            "us  sm90_plain      1\n"
            "linear  bf16   bf16    64  64  64  1.000 us   500.0 ns  500.0 ns  0.500  0.500  0.500       1.0%   1.100 "
            "us  sm90_plain      1\n"
            "linear  bf16   bf16  4096  63  64  1.000 us   4.000 us  4.000 us  4.000  4.000  4.000          -   1.100 "
            "us  sm90_plain      1  WRONG\n"
            "\n"
            "time, median of 1 round; ratio: the time of the best of cuBLASLt's first 8 heuristics over ridge's\n"
            "class                       rows  geometric mean  percentile 5  worst  geometric mean first  per cycle  "
            "prediction error  wrong\n"
            "M <= 128                       2           1.000         0.500  0.500                 1.000       0.5%    "
            "         10.0%      0\n"
            "n or k not a multiple of 8     1           4.000         4.000  4.000                 4.000          -    "
            "         10.0%      1\n"
            "all                            3           1.587         0.500  0.500                 1.587       0.5%    "
            "         10.0%      1\n"
            "NVIDIA H200, driver 13.0, 2026-01-02\n"
            "clock 1.900 GHz of 1.980 GHz, 312 W, limited by: power limit\n"
            "cold L2; per cycle: ridge's FLOPs over the matrix units' peak at the clock after the row's last turn\n");
  EXPECT_EQ(check_results(make_device_products()).error().to_string(),
            "ridge computes wrong results for linear bf16 bf16 m=4096 n=63 k=64\n");
  EXPECT_EQ(check_results(make_device_products()).error().kind, ErrorKind::mismatch);
  EXPECT_TRUE(check_results(make_cpu_products()));
}

TEST(DeviceProducts, ComputesThePeakPerCycleFromTheMachine) {
  Machine machine = *find_machine("h200");
  EXPECT_NEAR(*matrix_flops_per_cycle(machine, DType::bf16), 4096, 2);
  EXPECT_NEAR(*matrix_flops_per_cycle(machine, DType::e4m3), 8192, 4);
  EXPECT_NEAR(*matrix_flops_per_cycle(machine, DType::f32), 683, 1);
  EXPECT_FALSE(matrix_flops_per_cycle(machine, DType::int32));
  machine.numbers.erase("matrix_clock_hz");
  EXPECT_FALSE(matrix_flops_per_cycle(machine, DType::bf16));
}

TEST(ComparisonReport, ComparesStreamsWithACopy) {
  Comparison stream{.benchmark = "stream", .device = "NVIDIA H200", .day = "2026-01-02"};
  stream.rounds = 3;
  stream.driver = 13000;
  stream.measures = {Comparison::Measure::gb_per_s};
  stream.columns = {{"bar", "bar"}};
  stream.ratio_meaning = "the time of a copy over ridge's";
  stream.notes = {"arrays of 1000 elements"};
  stream.settings["elements"] = 1000;
  for (const char* kernel : {"cos_16", "softmax"}) {
    ComparisonRow row;
    row.labels = {{"kernel", kernel}, {"dtype", "f32"}, {"columns", kernel[0] == 'c' ? 0 : 4096}};
    row.competitors = {{.name = "ridge", .samples = {4e-3, 5e-3, 3.2e-3}, .bytes = 8e9},
                       {.name = "copy", .samples = {2e-3, 2e-3, 2e-3}, .bytes = 8e9}};
    set_ratio(row, 1);
    row.numbers = {{"bytes", 8e9},
                   {"bar", kernel[0] == 'c' ? Json(nullptr) : Json(0.9)},
                   {"max_error", 0},
                   {"allowed_error", 4e-6}};
    stream.rows.push_back(row);
  }
  EXPECT_EQ(format_comparison(stream),
            "kernel   dtype  columns   ridge    copy  ratio    low   high    bar\n"
            "cos_16   f32          -  2000.0  4000.0  0.500  0.400  0.625      -\n"
            "softmax  f32       4096  2000.0  4000.0  0.500  0.400  0.625  0.900\n"
            "\n"
            "GB/s read and written, median of 3 rounds; ratio: the time of a copy over ridge's\n"
            "NVIDIA H200, driver 13.0, 2026-01-02\n"
            "arrays of 1000 elements\n");
  expect_golden("bench_stream.json", stream);
}

TEST(ComparisonReport, ShowsTimesPredictionsAndRatesOfRepeats) {
  using Measure = Comparison::Measure;
  Comparison repeats{.benchmark = "repeats", .device = "NVIDIA H200 SXM", .day = "2026-01-02"};
  repeats.rounds = 3;
  repeats.driver = 13000;
  repeats.measures = {Measure::seconds, Measure::predicted_s, Measure::flop_per_s, Measure::byte_per_s};
  repeats.ratio_meaning = "the time of one kernel per repeat over that of one kernel";
  for (const int r : {1, 4}) {
    ComparisonRow row;
    row.labels["repeats"] = r;
    row.competitors = {{.name = "one kernel",
                        .samples = {2e-6},
                        .flops = 1e6 * r,
                        .bytes = 8e6,
                        .predicted_s = Interval{1, 2.5e-6, 4}},
                       {.name = "per repeat",
                        .samples = {2e-6 * r},
                        .flops = 1e6 * r,
                        .bytes = 8e6 * r,
                        .predicted_s = Interval{1, 2e-6 * r, 4}}};
    set_ratio(row, 1);
    repeats.rows.push_back(row);
  }
  EXPECT_EQ(format_comparison(repeats),
            "repeats  one kernel  predicted         FLOP/s         B/s  per repeat  predicted         FLOP/s         "
            "B/s  ratio    low   high\n"
            "      1    2.000 us   2.500 us  500.0 GFLOP/s  4.000 TB/s    2.000 us   2.000 us  500.0 GFLOP/s  4.000 "
            "TB/s  1.000  1.000  1.000\n"
            "      4    2.000 us   2.500 us  2.000 TFLOP/s  4.000 TB/s    8.000 us   8.000 us  500.0 GFLOP/s  4.000 "
            "TB/s  4.000  4.000  4.000\n"
            "\n"
            "time, median of 3 rounds; ratio: the time of one kernel per repeat over that of one kernel\n"
            "NVIDIA H200 SXM, driver 13.0, 2026-01-02\n");
  const Json time = Json::parse(comparison_json(repeats))["rows"][1]["times"][0];
  EXPECT_EQ(time["flops_per_s"], 2e12);
  EXPECT_EQ(time["bytes_per_s"], 4e12);
  EXPECT_EQ(time["predicted_s"]["expected"], 2.5e-6);
}

}  // namespace
}  // namespace ridge

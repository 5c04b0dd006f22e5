#include "ridge/bench/cpu_benchmark_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ridge {
namespace {

CpuBenchmark make_one_row() {
  CpuBenchmark benchmark{.threads = 1, .rounds = 3, .machine = "cpu", .machine_title = "A test machine, one core"};
  benchmark.removed_environment = {"OMP_NUM_THREADS"};
  benchmark.libraries = {"ridge (plain)", "BLAS \xff"};
  CpuBenchmarkRow row{.shape = {"nn", DType::f32, DType::f32, 10, 10, 10}};
  row.times = {{"ridge", true, {1e-6, 1e-6, 2e-6, 3}, 2e9, 1e-8}, {"openblas", true, {2e-6, 2e-6, 3e-6, 3}, 1e9, 1e-8}};
  row.best_library = "openblas";
  row.ratio = 2;
  row.ratio_low = 1.5;
  row.ratio_high = 2.5;
  row.fraction_of_peak = 0.5;
  benchmark.rows.push_back(row);
  return benchmark;
}

TEST(CpuBenchmarkReport, PrintsOneLinePerProductThenTheSummaries) {
  EXPECT_EQ(format_cpu_benchmark(make_one_row()),
            "op     dtype      m      n      k     ridge  openblas  ratio        rounds of peak\n"
            "nn     f32       10     10     10       2.0       1.0  2.000  1.500-2.500    50.0%\n"
            "\n"
            "GFLOP/s, median of 3 rounds, 1 thread; ratio: the best other library's time over ridge's\n"
            "of peak: A test machine, one core\n"
            "f32 all            1 rows   geometric mean 2.000   worst 2.000\n"
            "f32 M > 8          1 rows   geometric mean 2.000   worst 2.000\n"
            "library: ridge (plain)\n"
            "library: BLAS \xff\n"
            "removed from the environment: OMP_NUM_THREADS\n");
}

TEST(CpuBenchmarkReport, JsonReplacesInvalidUtf8) {
  const auto json = nlohmann::json::parse(cpu_benchmark_json(make_one_row()));
  EXPECT_EQ(json["libraries"][1], "BLAS \xEF\xBF\xBD");
  EXPECT_EQ(json["machine_title"], "A test machine, one core");
  EXPECT_EQ(json["removed_environment"], nlohmann::json{"OMP_NUM_THREADS"});
  EXPECT_EQ(json["rows"][0]["fraction_of_peak"], 0.5);
  EXPECT_EQ(json["rows"][0]["times"][0]["median_s"], 1e-6);
}

}  // namespace
}  // namespace ridge

#include "ridge/bench/cpu_benchmark.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ridge/bench/competitor.h"
#include "ridge/bench/matmul_library.h"

namespace ridge {
namespace {

Machine make_test_machine() {
  Machine machine;
  machine.name = "test";
  machine.title = "A test machine";
  SourcedValue peak;
  peak.value = 1e12;
  machine.peaks.push_back({ComputeUnit::vector, DType::f32, peak});
  return machine;
}

TEST(CpuBenchmark, RunsWithoutOtherLibraries) {
  const auto result = run_cpu_benchmark({{"nn", DType::f32, DType::f32, 33, 47, 65},
                                         {"linear", DType::bf16, DType::f32, 3, 20, 31},
                                         {"tn", DType::f32, DType::f32, 17, 9, 5}},
                                        make_test_machine(), {.threads = 1, .rounds = 1, .libraries = {}});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  ASSERT_EQ(result->rows.size(), 3u);
  for (const auto& row : result->rows) {
    EXPECT_TRUE(row.times[0].supported);
    EXPECT_GT(row.times[0].time.median, 0);
    EXPECT_NEAR(row.times[0].flop_per_s, row.shape.flops() / row.times[0].time.median, 1);
    EXPECT_LT(row.times[0].max_error, 1e-5);
    EXPECT_EQ(row.best_library, "");
  }
  EXPECT_NEAR(*result->rows[0].fraction_of_peak, result->rows[0].times[0].flop_per_s / 1e12, 1e-12);
  EXPECT_EQ(result->rows[1].fraction_of_peak, std::nullopt);  // the test machine has no bf16 peak
  EXPECT_EQ(result->machine_title, "A test machine");
  EXPECT_TRUE(result->summarize_shape_classes().empty());
}

TEST(CpuBenchmark, Int8ProductsHaveNoError) {
  const auto result = run_cpu_benchmark(
      {{"nn", DType::int8, DType::int32, 33, 47, 65}, {"linear", DType::bf16, DType::bf16, 3, 20, 31, DType::int8}},
      make_test_machine(), {.threads = 1, .rounds = 1, .libraries = {}});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_TRUE(result->rows[0].times[0].supported);
  EXPECT_EQ(result->rows[0].times[0].max_error, 0);
  EXPECT_TRUE(result->rows[1].times[0].supported);
  EXPECT_LT(result->rows[1].times[0].max_error, 0x1p-8);
}

TEST(CpuBenchmark, RejectsInvalidLibraryListsBeforeTiming) {
  const auto error_text = [](std::vector<std::string> libraries) {
    const auto result = run_cpu_benchmark({{"nn", DType::f32, DType::f32, 4, 4, 4}}, make_test_machine(),
                                          {.libraries = std::move(libraries)});
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::usage);
    return result.error().to_string();
  };
  EXPECT_EQ(error_text({"atlas"}), "unknown library 'atlas'; expected openblas, onednn or torch\n");
  EXPECT_EQ(error_text({"openblas", "onednm"}),
            "unknown library 'onednm'; expected openblas, onednn or torch\n  hint: did you mean onednn?\n");
  EXPECT_EQ(error_text({"openblas", "openblas"}), "expected each library once, found 'openblas' twice\n");
  EXPECT_EQ(error_text({"ridge"}),
            "expected libraries to compare ridge with, found 'ridge' itself\n  hint: --against openblas,onednn\n");
}

TEST(CpuBenchmark, RejectsShapesThatExceedMemory) {
  const std::vector<BenchmarkShape> shapes{{"nn", DType::f32, DType::f32, 4, 4, 4},
                                           {"nn", DType::f32, DType::f32, 1000, 1000, 1000}};
  EXPECT_TRUE(check_benchmark_memory(shapes, 3, 36'000'000).ok());  // 12 MB each
  EXPECT_EQ(check_benchmark_memory(shapes, 3, 35'999'999).error().to_string(),
            "nn f32 m=1000 n=1000 k=1000 takes 36.00 MB in 3 processes; expected at most the 36.00 MB that are "
            "available\n  hint: leave the shape out, or name fewer libraries after --against\n");
  const auto huge = run_cpu_benchmark({{"nn", DType::f32, DType::f32, 999'999'999, 999'999'999, 999'999'999}},
                                      make_test_machine(), {});
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().kind, ErrorKind::input);
  EXPECT_TRUE(huge.error().message.starts_with("nn f32 m=999999999 n=999999999 k=999999999 takes "))
      << huge.error().message;
}

TEST(Competitor, ReportsAllocationFailure) {
  auto ours = Competitor::start("ridge", 1);
  ASSERT_TRUE(ours.ok());
  const auto answer = ours->prepare_product({"nn", DType::f32, DType::f32, 999'999'999, 1, 999'999'999});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().to_string(),
            "ridge: the system refused 4.000 EB of memory\n  hint: leave the largest shapes out\n");
  EXPECT_EQ(answer.error().kind, ErrorKind::input);
  EXPECT_TRUE(ours->prepare_product({"nn", DType::f32, DType::f32, 5, 6, 7}).ok());  // the process continues
}

TEST(Competitor, ReportsADeadProcess) {
  auto ours = Competitor::start("ridge", 1);
  ASSERT_TRUE(ours.ok());
  ASSERT_TRUE(ours->prepare_product({"nn", DType::f32, DType::f32, 5, 6, 7}).ok());
  kill(ours->process_id(), SIGKILL);
  const auto answer = ours->run_calls(1);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::absent);
  EXPECT_EQ(answer.error().to_string(),
            "the process of ridge was ended by signal 9 (Killed) at nn f32 m=5 n=6 k=7\n"
            "  hint: the system may have had no memory left: leave the largest shapes out\n");
}

TEST(CpuBenchmark, SummarisesByDtypeAndRows) {
  CpuBenchmark c;
  for (auto [m, ratio] : {std::pair{1, 4.0}, std::pair{64, 1.0}, std::pair{128, 2.0}})
    c.rows.push_back({.shape = {"nn", DType::f32, DType::f32, m, 8, 8}, .ratio = ratio});
  const auto classes = c.summarize_shape_classes();
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_NEAR(classes[0].geometric_mean, 2.0, 1e-12);
  EXPECT_NEAR(classes[1].geometric_mean, std::sqrt(2.0), 1e-12);
  EXPECT_EQ(classes[1].worst_ratio, 1.0);
  EXPECT_EQ(classes[2].rows, 1u);
  EXPECT_EQ(classes[0].name, "f32 all");
  c.rows[0].shape.dtype = DType::bf16;  // occurs first
  std::vector<std::string> names;
  for (const CpuBenchmarkSummary& each : c.summarize_shape_classes()) names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"bf16 all", "bf16 M <= 8", "f32 all", "f32 M > 8"}));
}

TEST(CpuBenchmark, RemovesLibraryEnvironmentVariables) {
  setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  const auto removed = remove_library_variables();
  EXPECT_NE(std::find(removed.begin(), removed.end(), "OPENBLAS_CORETYPE"), removed.end());
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr);
}

}  // namespace
}  // namespace ridge

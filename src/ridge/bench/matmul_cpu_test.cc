#include "ridge/bench/bench.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ridge/bench/library_process.h"
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

TEST(CpuProducts, RunsWithoutOtherLibraries) {
  const auto result = compare_cpu_products({{"nn", DType::f32, DType::f32, 33, 47, 65},
                                            {"linear", DType::bf16, DType::f32, 3, 20, 31},
                                            {"tn", DType::f32, DType::f32, 17, 9, 5}},
                                           make_test_machine(), {.threads = 1, .rounds = 1, .libraries = {}});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  ASSERT_EQ(result->rows.size(), 3u);
  for (const ComparisonRow& row : result->rows) {
    EXPECT_GT(row.competitors[0].time().median, 0);
    EXPECT_LT(*row.competitors[0].max_error, 1e-5);
    EXPECT_EQ(row.best, "");
    EXPECT_EQ(row.ratio.median, 0);
  }
  const Competitor& ridge = result->rows[0].competitors[0];
  EXPECT_NEAR(result->rows[0].numbers["fraction_of_peak"], ridge.flops / ridge.time().median / 1e12, 1e-12);
  EXPECT_TRUE(result->rows[1].numbers["fraction_of_peak"].is_null());  // the test machine has no bf16 peak
  EXPECT_EQ(result->device, "A test machine");
  EXPECT_EQ(result->threads, 1);
  const Json json = Json::parse(comparison_json(*result));
  EXPECT_TRUE(json["classes"].empty());
  EXPECT_TRUE(json["rows"][0]["ratio"].is_null());
  EXPECT_EQ(json["rows"][0]["times"][0]["runs"], 1);
}

TEST(CpuProducts, Int8ProductsHaveNoError) {
  const auto result = compare_cpu_products(
      {{"nn", DType::int8, DType::int32, 33, 47, 65}, {"linear", DType::bf16, DType::bf16, 3, 20, 31, DType::int8}},
      make_test_machine(), {.threads = 1, .rounds = 1, .libraries = {}});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_EQ(result->rows[0].competitors[0].max_error, 0);
  EXPECT_LT(*result->rows[1].competitors[0].max_error, 0x1p-8);
}

TEST(CpuProducts, RejectsInvalidLibraryListsBeforeTiming) {
  const auto error_text = [](std::vector<std::string> libraries) {
    const auto result = compare_cpu_products({{"nn", DType::f32, DType::f32, 4, 4, 4}}, make_test_machine(),
                                             {.libraries = std::move(libraries)});
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::usage);
    return result.error().to_string();
  };
  EXPECT_EQ(error_text({"atlas"}), "unknown library 'atlas'; expected openblas, mkl, onednn or torch\n");
  EXPECT_EQ(error_text({"openblas", "onednm"}),
            "unknown library 'onednm'; expected openblas, mkl, onednn or torch\n  hint: did you mean onednn?\n");
  EXPECT_EQ(error_text({"openblas", "openblas"}), "expected each library once, found 'openblas' twice\n");
  EXPECT_EQ(error_text({"ridge"}),
            "expected libraries to compare ridge with, found 'ridge' itself\n  hint: --against openblas,onednn\n");
}

TEST(CpuProducts, RejectsShapesThatExceedMemory) {
  const std::vector<BenchmarkShape> shapes{{"nn", DType::f32, DType::f32, 4, 4, 4},
                                           {"nn", DType::f32, DType::f32, 1000, 1000, 1000}};
  EXPECT_TRUE(check_benchmark_memory(shapes, 3, 36'000'000).ok());  // 12 MB each
  EXPECT_EQ(check_benchmark_memory(shapes, 3, 35'999'999).error().to_string(),
            "nn f32 m=1000 n=1000 k=1000 takes 36.00 MB in 3 processes; expected at most the 36.00 MB that are "
            "available\n  hint: leave the shape out, or name fewer libraries after --against\n");
  const auto huge = compare_cpu_products({{"nn", DType::f32, DType::f32, 999'999'999, 999'999'999, 999'999'999}},
                                         make_test_machine(), {});
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().kind, ErrorKind::input);
  EXPECT_TRUE(huge.error().message.starts_with("nn f32 m=999999999 n=999999999 k=999999999 takes "))
      << huge.error().message;
}

TEST(LibraryProcess, ReportsAllocationFailure) {
  auto ours = LibraryProcess::start("ridge", 1);
  ASSERT_TRUE(ours.ok());
  const auto answer = ours->prepare_product({"nn", DType::f32, DType::f32, 999'999'999, 1, 999'999'999});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().to_string(),
            "ridge: the system refused 4.000 EB of memory\n  hint: leave the largest shapes out\n");
  EXPECT_EQ(answer.error().kind, ErrorKind::input);
  EXPECT_TRUE(ours->prepare_product({"nn", DType::f32, DType::f32, 5, 6, 7}).ok());  // the process continues
}

TEST(LibraryProcess, ReportsADeadProcess) {
  auto ours = LibraryProcess::start("ridge", 1);
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

TEST(CpuProducts, RemovesLibraryEnvironmentVariables) {
  setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  const auto removed = remove_library_variables();
  EXPECT_NE(std::find(removed.begin(), removed.end(), "OPENBLAS_CORETYPE"), removed.end());
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr);
}

TEST(MatmulLibraries, NameTheVariableWhoseLibraryCannotBeLoaded) {
  setenv("RIDGE_MKL", "/nowhere/libmkl_rt.so", 1);
  EXPECT_EQ(
      load_matmul_library("mkl", 1).error().to_string(),
      "RIDGE_MKL: expected a library that can be loaded, found '/nowhere/libmkl_rt.so'\n  hint: set it to the path "
      "of the library, with its directory in LD_LIBRARY_PATH\n");
  unsetenv("RIDGE_MKL");
}

}  // namespace
}  // namespace ridge

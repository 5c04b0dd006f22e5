#include "ridge/measure/calibrate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ridge/plan/library_model.h"

namespace ridge {
namespace {

// Numbers of the library that the timings simulate: an H200's with a slower launch and memory.
ops::LibraryNumbers library_numbers() {
  ops::LibraryNumbers out = find_library_model(*find_machine("h200"), DType::bf16)->numbers;
  out.launch_s *= 1.5;
  out.memory_fraction *= 0.8;
  return out;
}
std::string make_timings() {
  const ops::DatasheetRates sheet = find_library_model(*find_machine("h200"), DType::bf16)->machine;
  std::string out = "op,dtype,m,n,k,us\n";
  for (const int n : {128, 256, 640, 1024, 4096, 11008})
    for (const int k : {192, 512, 1024, 4096, 8192})
      for (const int m : {1, 16, 128, 257, 2048, 8192})
        out += fmt::format("linear,{},{},{},{},{}\n", m % 2 == 0 ? "bf16" : "f16", m, n, k,
                           1e6 * estimate_library_seconds({1.0, m * 1.0, n * 1.0, k * 1.0}, sheet, library_numbers()));
  return out;
}

TEST(Calibrate, RecoversTheNumbersOfASimulatedLibrary) {
  const auto read = read_library_timings(make_timings(), "t.csv", DType::bf16, "");
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->formula->name, "product");
  EXPECT_EQ(read->kernels.size(), 180u);
  const auto found = calibrate_library(*find_machine("h200"), DType::bf16, *read);
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_LT(found->held_out_errors.mean, 0.02);
  EXPECT_GT(found->previous_errors.mean, 0.05);
  EXPECT_GT(found->roofline_errors.mean, found->previous_errors.mean);
  EXPECT_EQ(found->fitted_errors.kernels + found->held_out_errors.kernels, 180);
  EXPECT_EQ(found->held_out.size(), static_cast<std::size_t>(found->held_out_errors.kernels));
  EXPECT_TRUE(format_held_out_csv(*found).starts_with("m,n,k,batch,measured_s,low_s,predicted_s,high_s\n"));
  EXPECT_NEAR(found->numbers[0], library_numbers().launch_s, 0.1 * library_numbers().launch_s);
  EXPECT_LE(found->spread.low, found->spread.middle);
  EXPECT_LE(found->spread.middle, found->spread.high);
}

TEST(Calibrate, WrittenMachineReadsBackWithFittedNumbers) {
  const Machine h100 = *find_machine("h100");
  const auto found =
      calibrate_library(h100, DType::bf16, *read_library_timings(make_timings(), "t.csv", DType::bf16, "us"));
  ASSERT_TRUE(found) << found.error().to_string();
  const auto again = parse_machine(print_machine(with_calibration(h100, *found, "t.csv", "2026-11-25")), "mine.toml");
  ASSERT_TRUE(again) << again.error().to_string();
  const auto library = find_library_model(*again, DType::bf16);
  ASSERT_TRUE(library) << library.error().to_string();
  EXPECT_TRUE(library->is_calibrated);
  EXPECT_NEAR(library->numbers.step_s, found->numbers[3], 1e-3 * found->numbers[3]);
  EXPECT_NEAR(library->spread.high, found->spread.high, 1e-3);
}

// Fitting timings that a formula computes recovers its numbers, including one that differs from its start value.
TEST(Calibrate, RecoversTheNumbersOfEveryFormula) {
  const Machine h200 = *find_machine("h200");
  const ops::LibraryDevice chip{.rates = *find_datasheet_rates(h200, DType::bf16), .cache_bytes = 52428800};
  for (const ops::LibraryFormula* formula : ops::library_formulas()) {
    if (formula->name == "product") continue;
    std::vector<double> known;
    for (const ops::LibraryParameter& x : formula->numbers) known.push_back(x.initial_value);
    known[0] *= 5;
    LibraryTimings timings{.formula = formula, .kernels = {}};
    for (int i = 0; i < 200; ++i) {
      const double width = 64 << i % 3, rows = 16 << i % 8, heads = 4 + i % 7 * 4;
      TimedKernel kernel{{1.0 + i % 5, heads, 4, rows * 4, width}, 0};
      if (formula->name == "streamed") kernel.sizes = {rows * heads, width * 16};
      if (formula->name == "cpu")
        kernel.sizes = {rows * heads * 1e-7, width * 1e-7, rows * 1e-7, rows * heads * width, rows, heads * 8, width};
      kernel.seconds = formula->estimate_seconds(kernel.sizes, chip, known);
      if (formula->columns.size() == 5) {
        EXPECT_GE(kernel.seconds, formula->roofline_seconds(kernel.sizes, chip)) << formula->name;
      }
      timings.kernels.push_back(kernel);
    }
    const auto found = calibrate_library(h200, DType::bf16, timings);
    ASSERT_TRUE(found) << found.error().to_string();
    EXPECT_LT(found->held_out_errors.mean, 0.02) << formula->name;
    EXPECT_GT(found->previous_errors.mean, 0.05) << formula->name;
    EXPECT_NE(format_machine_lines(*found, "t.csv", "2026-11-26").find(std::string(formula->numbers[0].key) + " = "),
              std::string::npos);
  }
}

TEST(Calibrate, ErrorsNameMissingColumnsAndTimings) {
  const auto error_text = [](const std::string& csv, const std::string& column = "") {
    const auto read = read_library_timings(csv, "t.csv", DType::bf16, column);
    return read ? std::string() : read.error().to_string();
  };
  EXPECT_EQ(
      error_text("m,n,us\n1,2,3\n"),
      "t.csv:1:1: expected the columns of a kernel: m, n, k (product); batch, heads, key_heads, rows, width "
      "(prefill); batch, heads, key_heads, keys, width (decode); rows, row_bytes (streamed); multiply_s, vector_s, "
      "memory_s, bytes, m, n, k (cpu), found m,n,us\n"
      "  m,n,us\n  ^\n  hint: `ridge bench matmul --against cublaslt --csv` writes such a file\n");
  EXPECT_EQ(error_text("m,n,k\n1,2,3\n"),
            "t.csv:1:1: expected a column of times such as us or time_s, found m,n,k\n  m,n,k\n  ^\n"
            "  hint: --column NAME selects the column of times\n");
  EXPECT_EQ(error_text("us,m,n,k\n4,1,2\n").substr(0, 47), "t.csv:2:1: expected 4 cells or more, found 3\n  ");
  EXPECT_EQ(error_text("m,n,k,us\n1,x,3,4\n").substr(0, 48), "t.csv:2:3: expected a number above 0, found 'x'\n");
  EXPECT_EQ(error_text("m,n,k,us\n1,2,3,4\n"),
            "'t.csv' holds 1 timings of bf16 kernels, expected 10 or more\n"
            "  hint: a CSV with the columns dtype,m,n,k,us: `ridge bench matmul --against cublaslt --csv`\n");
}

TEST(Calibrate, ModelsMachinesWithoutCalibration) {
  const auto elsewhere = find_library_model(*find_machine("a100_40"), DType::bf16);
  ASSERT_TRUE(elsewhere) << elsewhere.error().to_string();
  EXPECT_FALSE(elsewhere->is_calibrated);
  const auto lacks = find_library_model(*find_machine("cpu"), DType::e5m2);
  ASSERT_FALSE(lacks);
  EXPECT_EQ(lacks.error().to_string(),
            "cannot predict library products on cpu: no matrix peak of this dtype on record\n"
            "  hint: its machine file needs matrix peaks, a memory bandwidth and numbers.cores\n");
}

}  // namespace
}  // namespace ridge

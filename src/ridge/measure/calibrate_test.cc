#include "ridge/measure/calibrate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ridge/plan/library.h"

namespace ridge {
namespace {

// Timings of a library whose numbers are known: an H200's with a slower launch and memory.
ops::LibraryNumbers known() {
  ops::LibraryNumbers out = library_on(*find_machine("h200"), DType::bf16)->numbers;
  out.launch_s *= 1.5;
  out.memory *= 0.8;
  return out;
}
std::string timings() {
  const ops::LibraryMachine sheet = library_on(*find_machine("h200"), DType::bf16)->machine;
  std::string out = "op,dtype,m,n,k,us\n";
  for (const int n : {128, 256, 640, 1024, 4096, 11008})
    for (const int k : {192, 512, 1024, 4096, 8192})
      for (const int m : {1, 16, 128, 257, 2048, 8192})
        out += fmt::format("linear,{},{},{},{},{}\n", m % 2 == 0 ? "bf16" : "f16", m, n, k,
                           1e6 * library_seconds({1.0, m * 1.0, n * 1.0, k * 1.0}, sheet, known()));
  return out;
}

TEST(Calibrate, FindsTheNumbersOfALibraryAgain) {
  const auto read = read_library_timings(timings(), "t.csv", DType::bf16, "");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->size(), 180u);
  const auto found = calibrate(*find_machine("h200"), DType::bf16, *read);
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_LT(found->apart.mean, 0.02);
  EXPECT_GT(found->before.mean, 0.05);
  EXPECT_GT(found->roofline.mean, found->before.mean);
  EXPECT_EQ(found->fitted.products + found->apart.products, 180);
  EXPECT_NEAR(found->numbers.launch_s, known().launch_s, 0.1 * known().launch_s);
  EXPECT_LE(found->spread.low, found->spread.middle);
  EXPECT_LE(found->spread.middle, found->spread.high);
}

TEST(Calibrate, StoresTheNumbersInAMachineThatReadsThemBack) {
  const Machine h100 = *find_machine("h100");
  const auto found = calibrate(h100, DType::bf16, *read_library_timings(timings(), "t.csv", DType::bf16, "us"));
  ASSERT_TRUE(found) << found.error().text();
  const auto again = parse_machine(print_machine(with_library(h100, *found, "t.csv", "2026-11-25")), "mine.toml");
  ASSERT_TRUE(again) << again.error().text();
  const auto library = library_on(*again, DType::bf16);
  ASSERT_TRUE(library) << library.error().text();
  EXPECT_TRUE(library->is_measured);
  EXPECT_NEAR(library->numbers.step_s, found->numbers.step_s, 1e-3 * found->numbers.step_s);
  EXPECT_NEAR(library->spread.high, found->spread.high, 1e-3);
}

TEST(Calibrate, SaysWhatAFileLacks) {
  const auto said = [](const std::string& csv, const std::string& column = "") {
    const auto read = read_library_timings(csv, "t.csv", DType::bf16, column);
    return read ? std::string() : read.error().text();
  };
  EXPECT_EQ(said("m,n,us\n1,2,3\n"),
            "t.csv:1:1: expected the columns m, n, k and a time such as us or time_s, found m,n,us\n  m,n,us\n  ^\n"
            "  hint: --column NAME says which one holds the times\n");
  EXPECT_EQ(said("m,n,k,us\n1,x,3,4\n").substr(0, 48), "t.csv:2:3: expected a number above 0, found 'x'\n");
  EXPECT_EQ(said("m,n,k,us\n1,2,3,4\n"),
            "'t.csv' holds 1 timings of bf16 products, expected 40 or more\n"
            "  hint: a CSV with the columns dtype,m,n,k,us: `ridge bench matmul --against cublaslt --csv`\n");
}

TEST(Calibrate, PredictsWhereNobodyCalibratedByAnH200sShares) {
  const auto elsewhere = library_on(*find_machine("a100_40"), DType::bf16);
  ASSERT_TRUE(elsewhere) << elsewhere.error().text();
  EXPECT_FALSE(elsewhere->is_measured);
  const auto lacks = library_on(*find_machine("cpu"), DType::e4m3);
  ASSERT_FALSE(lacks);
  EXPECT_EQ(lacks.error().text(),
            "cannot predict a library's products on cpu: no matrix peak of this dtype on record\n"
            "  hint: its machine file wants matrix peaks, a memory's bandwidth and numbers.cores\n");
}

}  // namespace
}  // namespace ridge

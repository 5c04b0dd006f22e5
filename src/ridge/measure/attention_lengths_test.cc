// Attention of sequences that differ in length, as `ridge run` runs it, against the reference executor in fp64, which
// takes the statements one by one; in one kernel, and in single ones where a program asks for more.
#include <gtest/gtest.h>

#include "ridge/measure/run.h"
#include "ridge/program/load.h"

namespace ridge {
namespace {

// How many kernels ran.
std::size_t ran(const std::string& text) {
  const Program program = parse(text).value();
  const auto explanation = explain(program, *find_machine("h100"), {}).value();
  RunOptions options;
  options.passes = 1;
  const auto m = run(program, explanation, options);
  EXPECT_TRUE(m.ok()) << text << (m.ok() ? "" : m.error().text());
  if (!m.ok()) return 0;
  EXPECT_FALSE(m->mismatch) << text << m->mismatch->text();
  EXPECT_GT(m->total.checked, 0) << text;
  return m->names.size();
}

std::string program_of(const std::string& dtype, const std::string& mask, const std::string& more = "") {
  const auto tensor = [&](const std::string& name, const std::string& dims) {
    return name + ": " + dtype + "[" + dims + "]";
  };
  return "dims B = 3, S = 5, T = 70, K = 2, G = 2, E = 12\n" + tensor("q", "B, S, K, G, E") + " " +
         tensor("k", "B, T, K, E") + " " + tensor("v", "B, T, K, E") + " n: int32[B]\n" +
         "s[B, S, K, G, T] = q * k\np[B, S, K, G, T] = softmax(where(" + mask + ", s * 0.2, -inf) over T)\n" + more +
         tensor("o", "B, S, K, G, E") + " = p * v\n";
}

TEST(AttentionOfLengths, EqualsItsStatements) {
  for (const char* const dtype : {"f32", "bf16", "f16"})
    for (const char* const mask : {"index(T) < n", "index(T) <= index(S) + n - 1", "index(T) < n + 1"})
      EXPECT_EQ(ran(program_of(dtype, mask)), 1u) << dtype << " " << mask;
}

// Whole numbers are converted for the kernels of expressions.
TEST(AttentionOfLengths, RunsAsSingleKernelsWhereItIsNoAttention) {
  EXPECT_EQ(ran(program_of("f32", "index(T) < 2 * n")), 3u);
  EXPECT_EQ(ran("dims N = 9, D = 40\nx: f32[N, D]   n: int32[N]\ny: f32[N, D] = where(index(D) < n, x, 0)\n"), 1u);
  EXPECT_EQ(ran("dims N = 9, D = 40\nx: bf16[N, D]   n: int32[N]\n"
                "y: bf16[N, D] = softmax(where(index(D) < n, x, -inf) over D)\n"),
            1u);
}

}  // namespace
}  // namespace ridge

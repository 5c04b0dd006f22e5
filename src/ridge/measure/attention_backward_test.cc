// Attention's backward pass, run as `ridge run` does, against the fp64 reference, which evaluates each statement alone.
#include <gtest/gtest.h>

#include "ridge/measure/run.h"
#include "ridge/program/load.h"

namespace ridge {
namespace {

// Runs the program and returns the names of each kernel's results.
std::vector<std::vector<std::string>> run_kernels(const std::string& text, const Bindings& dims = {}) {
  const Program program = parse(text).value();
  const auto explanation = explain(program, *find_machine("h100"), dims).value();
  RunOptions options;
  options.passes = 1;
  const Measurement m = run_program(program, explanation, options).value();
  EXPECT_FALSE(m.mismatch) << text << m.mismatch->to_string();
  EXPECT_GT(m.total.checked, 0) << text;
  return m.result_names;
}

std::string program_of(const std::string& dtype, const std::string& weights, const std::string& more = "",
                       const std::string& mean = "d[B, S, K, G] = sum(p * dp over T)\n") {
  const auto tensor = [&](const std::string& name, const std::string& dims) {
    return name + ": " + dtype + "[" + dims + "]";
  };
  return "dims B = 1, S = 21, T = 26, K = 2, G = 2, E = 12\n" + tensor("q", "B, S, K, G, E") + " " +
         tensor("k", "B, T, K, E") + " " + tensor("v", "B, T, K, E") + " " + tensor("do", "B, S, K, G, E") +
         "\ns[B, S, K, G, T] = q * k\np[B, S, K, G, T] = " + weights + "\n" + more + tensor("dv", "B, T, K, E") +
         " = p * do\ndp[B, S, K, G, T] = do * v\n" + mean + "ds[B, S, K, G, T] = p * (dp - d) * 0.2\n" +
         tensor("dq", "B, S, K, G, E") + " = ds * k\n" + tensor("dk", "B, T, K, E") + " = ds * q\n";
}

TEST(AttentionBackwardRun, FusedKernelMatchesSeparateStatements) {
  const std::string causal = "softmax(where(index(T) <= index(S) + 5, s * 0.2, -inf) over T)";
  const std::string window = "softmax(where((index(T) <= index(S)) * (index(T) > index(S) - 7), s * 0.2, -inf) over T)";
  for (const char* const dtype : {"f32", "bf16", "f16"}) {
    for (const std::string& weights : {std::string("softmax(s * 0.2 over T)"), causal, window}) {
      const auto names = run_kernels(program_of(dtype, weights));
      EXPECT_EQ(names.size(), 1u) << dtype << " " << weights;
    }
    const std::string forward = std::string("o: ") + dtype + "[B, S, K, G, E] = p * v\n";
    const auto both = run_kernels(program_of(dtype, causal, forward));
    ASSERT_EQ(both.size(), 2u);
    EXPECT_EQ(both[0], (std::vector<std::string>{"s", "p", "o"}));
    EXPECT_EQ(run_kernels(program_of(dtype, causal, forward, "d[B, S, K, G] = sum(do * o over E)\n")).size(), 2u);
  }
}

}  // namespace
}  // namespace ridge

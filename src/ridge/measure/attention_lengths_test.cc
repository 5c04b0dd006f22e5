// Attention of sequences of different lengths, fused or in separate kernels, run as `ridge run` does. Results are
// compared with the fp64 reference, which evaluates each statement alone.
#include <gtest/gtest.h>

#include "ridge/measure/run.h"
#include "ridge/program/load.h"

namespace ridge {
namespace {

// Runs the program and returns the number of kernels.
std::size_t count_kernels(const std::string& text) {
  const Program program = parse(text).value();
  const auto explanation = explain(program, *find_machine("h100"), {}).value();
  RunOptions options;
  options.passes = 1;
  const auto m = run_program(program, explanation, options);
  EXPECT_TRUE(m.ok()) << text << (m.ok() ? "" : m.error().to_string());
  if (!m.ok()) return 0;
  EXPECT_FALSE(m->mismatch) << text << m->mismatch->to_string();
  EXPECT_GT(m->total.checked, 0) << text;
  return m->result_names.size();
}

struct Declared {  // a tensor of this format in the notation
  std::string dtype;
  std::string operator()(const std::string& name, const std::string& dims) const {
    return name + ": " + dtype + "[" + dims + "]";
  }
};

std::string attention_program(const std::string& dtype, const std::string& mask, const std::string& more = "") {
  const Declared tensor{dtype};
  return "dims B = 3, S = 5, T = 70, K = 2, G = 2, E = 12\n" + tensor("q", "B, S, K, G, E") + " " +
         tensor("k", "B, T, K, E") + " " + tensor("v", "B, T, K, E") + " n: int32[B]\n" +
         "s[B, S, K, G, T] = q * k\np[B, S, K, G, T] = softmax(where(" + mask + ", s * 0.2, -inf) over T)\n" + more +
         tensor("o", "B, S, K, G, E") + " = p * v\n";
}

TEST(VariableLengthAttention, FusedKernelMatchesSeparateStatements) {
  for (const char* const dtype : {"f32", "bf16", "f16"})
    for (const char* const mask : {"index(T) < n", "index(T) <= index(S) + n - 1", "index(T) < n + 1"})
      EXPECT_EQ(count_kernels(attention_program(dtype, mask)), 1u) << dtype << " " << mask;
}

// Contiguous sequences of one or several rows, with equal and with different numbers of keys.
TEST(VariableLengthAttention, MatchesReferenceForPackedSequences) {
  const auto text = [](const std::string& dims, const std::string& mask) {
    return "dims " + dims +
           ", H = 3, E = 12\nq: f32[S, H, E]   k: f32[T, H, E]   v: f32[T, H, E]\n"
           "s[S, H, T] = q * k\np[S, H, T] = softmax(where(" +
           mask + ", s * 0.2, -inf) over T)\no: f32[S, H, E] = p * v\n";
  };
  const std::string same = "S = (70, 1, 200, 33), T = S", cross = "S = (70, 1, 20, 33), T = (5, 150, 99, 100)";
  EXPECT_EQ(count_kernels(text(same, "sequence(S) == sequence(T)")), 1u);
  EXPECT_EQ(count_kernels(text(same, "(sequence(S) == sequence(T)) * (index(T) <= index(S))")), 1u);
  EXPECT_EQ(
      count_kernels(text(same, "(index(T) <= index(S)) * (index(T) > index(S) - 9) * (sequence(T) == sequence(S))")),
      1u);
  EXPECT_EQ(count_kernels(text(cross, "sequence(S) == sequence(T)")), 1u);
  EXPECT_EQ(count_kernels(text(cross, "(sequence(S) == sequence(T)) * (index(T) >= index(S) - 99)")), 3u)
      << "a band is relative to the sequences' starts, which differ here";
}

// Keys and values in pages are read in place; other gathers are stored first.
std::string paged_attention_program(const std::string& dtype, const std::string& mask, const std::string& more = "") {
  const Declared tensor{dtype};
  return "dims B = 3, S = 5, P = 17, M = 4, R = 16, K = 2, G = 2, E = 12\n" + tensor("q", "B, S, K, G, E") + " " +
         tensor("k", "P, R, K, E") + " " + tensor("v", "P, R, K, E") + " n: int32[B] pages: int32[B, M]\n" +
         "a[B, M, R, K, E] = gather(k, pages over P)\nb[B, M, R, K, E] = gather(v, pages over P)\n" + more +
         "s[B, S, K, G, M, R] = q * a\np[B, S, K, G, M, R] = softmax(" + mask + " over M, R)\n" +
         tensor("o", "B, S, K, G, E") + " = p * b\n";
}
TEST(VariableLengthAttention, ReadsPagedKeysInPlace) {
  for (const char* const dtype : {"f32", "bf16", "f16"}) {
    EXPECT_EQ(count_kernels(paged_attention_program(dtype, "s * 0.2")), 1u);
    EXPECT_EQ(count_kernels(paged_attention_program(dtype, "where(index(M) * size(R) + index(R) < n, s * 0.2, -inf)")),
              1u);
    EXPECT_EQ(count_kernels(
                  paged_attention_program(dtype, "where(16 * index(M) + index(R) <= index(S) + n - 1, s * 0.2, -inf)")),
              1u);
  }
  EXPECT_EQ(count_kernels(paged_attention_program("f32", "where(index(M) * 15 + index(R) < n, s * 0.2, -inf)")), 5u);
  EXPECT_EQ(count_kernels(paged_attention_program("f32", "s * 0.2", "c: f32[B, M, R, K, E] = a + 1\n")), 6u)
      << "a is also read elsewhere";
}

// Integers are converted to f32 for the kernels of expressions.
TEST(VariableLengthAttention, RunsSeparateKernelsForOtherPrograms) {
  EXPECT_EQ(count_kernels(attention_program("f32", "index(T) < 2 * n")), 3u);
  EXPECT_EQ(count_kernels("dims N = 9, D = 40\nx: f32[N, D]   n: int32[N]\ny: f32[N, D] = where(index(D) < n, x, 0)\n"),
            1u);
  EXPECT_EQ(count_kernels("dims N = 9, D = 40\nx: bf16[N, D]   n: int32[N]\n"
                          "y: bf16[N, D] = softmax(where(index(D) < n, x, -inf) over D)\n"),
            1u);
}

}  // namespace
}  // namespace ridge

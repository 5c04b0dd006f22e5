#include <gtest/gtest.h>

#include <cstdlib>

#include "ridge/ops/attention/cpu.h"
#include "ridge/ops/attention/testing/backward_cases.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using testing::AttentionBackwardCase, testing::AttentionBackwardCases, testing::StoredElements,
    testing::describe_problem;

void run_backward(AttentionBackwardCase& x, int threads) {
  attention_backward(x.problem,
                     {x.q.data(), x.k.data(), x.v.data(), x.o.data(), x.dout.data(), x.lse.data(), x.dq.data(),
                      x.dk.data(), x.dv.data()},
                     threads);
}
// Returns the largest ratio of error to allowed error. Weights and dS are not rounded, since they stay in f32.
double error_ratio(const AttentionBackwardCase& x) {
  const DType dtype = x.problem.forward.dtype;
  if (dtype == DType::f32) return max_error_ratio(x, {2e-6, 1e-6});
  return max_error_ratio(x, {2e-6, dtype == DType::bf16 ? 0x1p-8 : 0x1p-11});
}
bool equal_bits(const StoredElements& a, const StoredElements& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!a.has_same_bits(i, b)) return false;
  return a.size() == b.size();
}
AttentionBackwardProblem contiguous_problem(DType dtype, std::int64_t rows, std::int64_t keys, std::int64_t width) {
  AttentionBackwardProblem out;
  AttentionProblem& p = out.forward;
  p = {.dtype = dtype, .rows = rows, .keys = keys, .width = width};
  p.q = p.o = out.dout = out.dq = {rows * width, rows * width, width};
  p.k = p.v = out.dk = out.dv = {keys * width, keys * width, width};
  return out;
}

class AttentionBackwardOnCpu : public pool::IsaTest {};

// The environment variable RIDGE_ATTENTION_CASES sets the number of cases.
TEST_P(AttentionBackwardOnCpu, EqualsFp64OnRandomCases) {
  const char* case_count = std::getenv("RIDGE_ATTENTION_CASES");
  const unsigned cases = case_count != nullptr ? static_cast<unsigned>(std::atoi(case_count)) : 24;
  for (unsigned seed = 0; seed < cases; ++seed) {
    AttentionBackwardCase x = AttentionBackwardCases(seed, {DType::f32, DType::bf16, DType::f16}).next_case(1);
    ASSERT_FALSE(unsupported_reason(x.problem)) << describe_problem(x.problem.forward);
    run_backward(x, 1 + static_cast<int>(seed % 3));
    EXPECT_LE(error_ratio(x), 1) << "seed " << seed << ": " << describe_problem(x.problem.forward);
  }
}

// Tests rows that see no key and keys that no row sees, as full tiles and within a tile.
TEST_P(AttentionBackwardOnCpu, GivesZeroGradientsToMaskedRowsAndKeys) {
  const std::pair<std::int64_t, std::int64_t> bands[] = {{150, 160}, {-5, -2}, {-400, -300}, {300, 400}, {-200, -140}};
  for (const auto& [low, high] : bands) {
    AttentionBackwardProblem all = contiguous_problem(DType::f32, 190, 330, 24);
    all.forward.low = low;
    all.forward.high = high;
    AttentionBackwardCase x = AttentionBackwardCases(7, {DType::f32}).make_case(all);
    run_backward(x, 3);
    EXPECT_LE(error_ratio(x), 1) << low << " " << high;
  }
}

TEST_P(AttentionBackwardOnCpu, ResultBitsDoNotDependOnThreadCount) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    AttentionBackwardCase one = AttentionBackwardCases(100 + seed, {DType::f32}).next_case(1), four = one;
    run_backward(one, 1);
    run_backward(four, 4);
    EXPECT_TRUE(equal_bits(one.dq, four.dq) && equal_bits(one.dk, four.dk) && equal_bits(one.dv, four.dv))
        << describe_problem(one.problem.forward);
  }
}

TEST_P(AttentionBackwardOnCpu, NanInARowAffectsOnlyItsDq) {
  for (const bool in_q : {true, false}) {
    AttentionBackwardProblem all = contiguous_problem(DType::f32, 200, 150, 8);
    all.forward.high = 0;
    AttentionBackwardCase x = AttentionBackwardCases(9, {DType::f32}).make_case(all);
    (in_q ? x.q : x.dout).set(57 * 8 + 3, NAN);
    if (in_q) {
      x.lse[57] = NAN;
      for (std::size_t e = 0; e < 8; ++e) x.o.set(57 * 8 + e, NAN);
    }
    run_backward(x, 2);
    for (std::size_t i = 0; i < 200 * 8; ++i) EXPECT_EQ(std::isnan(x.dq[i]), i / 8 == 57) << i << " " << in_q;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionBackwardOnCpu,
                         ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& each) { return std::string(isa_name(each.param)); });

TEST(AttentionBackwardOnCpu, DescribesUnsupportedProblems) {
  AttentionBackwardProblem p = contiguous_problem(DType::f32, 4, 4, 8);
  EXPECT_FALSE(unsupported_reason(p));
  p.forward.cap = 30;
  EXPECT_EQ(unsupported_reason(p).text(), "expected scores without a cap in attention's gradients, found 30");
  p.forward.cap = 0;
  p.forward.moves_with_rows = false;
  EXPECT_EQ(unsupported_reason(p).text(),
            "expected a mask that moves with the rows in attention's gradients, found one band for all");
  p.forward.moves_with_rows = true;
  p.forward.dtype = DType::int8;
  EXPECT_EQ(unsupported_reason(p).text(), "expected f32, bf16 or f16, found int8");
  p.forward.dtype = DType::f32;
  p.dk.row = 7;
  EXPECT_EQ(unsupported_reason(p).text(), "dk's rows overlap: expected a row stride of at least 8, found 7");
  p.dk.row = 8;
  p.forward.heads = 2;
  p.dq.head = 0;
  EXPECT_EQ(unsupported_reason(p).text(),
            "dq's heads overlap: expected strides above 0, found 32 and 0 for 1 x 2 heads");
  AttentionBackwardProblem differs = contiguous_problem(DType::f32, 4, 4, 8);
  differs.forward.lengths = AttentionProblem::Lengths{};
  EXPECT_EQ(
      unsupported_reason(differs).text(),
      "expected sequences of one length in attention's gradients, found a length for each: mask the scores instead");
  differs.forward.lengths.reset();
  differs.forward.pages = AttentionProblem::Pages{};
  EXPECT_EQ(cuda::unsupported_reason(differs).text(),
            "expected contiguous keys and values in attention's gradients, found pages");
}

}  // namespace
}  // namespace ridge::ops

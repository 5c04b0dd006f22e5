#include "ridge/ops/attention/cpu.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "ridge/ops/attention/testing/cases.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using testing::AttentionCase, testing::AttentionCases, testing::max_error_ratio, testing::describe_problem;

double run_error_ratio(AttentionCase& x, int threads) {
  attention(x.problem,
            {x.q.data(), x.k.data(), x.v.data(), x.o.data(), x.lse.data(), x.lengths.data(), x.row_starts.data(),
             x.key_starts.data(), x.pages.data()},
            threads);
  if (x.problem.dtype == DType::f32) return max_error_ratio(x, 2e-6, 1e-6);
  return max_error_ratio(x, multiplies_bf16_pairs(x.problem.dtype) ? 0x1p-8 : 2e-6,
                         x.problem.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11);
}

class AttentionOnCpu : public pool::IsaTest {};

// The environment variable RIDGE_ATTENTION_CASES sets the number of cases.
TEST_P(AttentionOnCpu, EqualsFp64OnRandomCases) {
  const char* case_count = std::getenv("RIDGE_ATTENTION_CASES");
  const unsigned cases = case_count != nullptr ? static_cast<unsigned>(std::atoi(case_count)) : 60;
  for (unsigned seed = 0; seed < cases; ++seed) {
    AttentionCase x = AttentionCases(seed, {DType::f32, DType::bf16, DType::f16}).next_case(1);
    ASSERT_FALSE(unsupported_reason(x.problem)) << describe_problem(x.problem);
    EXPECT_LE(run_error_ratio(x, 1 + static_cast<int>(seed % 3)), 1)
        << "seed " << seed << ": " << describe_problem(x.problem);
  }
}

// The sequence length is half a billion and the window moves with it, so the first key of each row's window is far
// after the last key and the row sees none.
TEST_P(AttentionOnCpu, RowsSeeNoKeyIfTheWindowIsPastTheLastKey) {
  AttentionCase x = AttentionCases(204, {DType::f32, DType::bf16, DType::f16}).next_case(1);
  ASSERT_TRUE(x.problem.lengths && x.problem.lengths->low_from_length) << describe_problem(x.problem);
  EXPECT_LE(run_error_ratio(x, 1), 1) << describe_problem(x.problem);
}

TEST_P(AttentionOnCpu, NanAffectsOnlyItsRow) {
  AttentionCase x = AttentionCases(3, {DType::f32}).next_case(1);
  x.problem = {.dtype = DType::f32, .rows = 200, .keys = 70, .width = 8};
  AttentionProblem& p = x.problem;
  p.q = p.o = {200 * 8, 200 * 8, 8};
  p.k = p.v = {70 * 8, 70 * 8, 8};
  const auto ones = [](std::size_t count) {
    testing::StoredElements out(DType::f32, count);
    for (std::size_t i = 0; i < count; ++i) out.set(i, 1);
    return out;
  };
  x.q = ones(200 * 8);
  x.k = x.v = ones(70 * 8);
  x.o = ones(200 * 8);
  x.q.set(57 * 8 + 3, NAN);
  attention(p, {x.q.data(), x.k.data(), x.v.data(), x.o.data(), nullptr}, 2);
  for (std::size_t i = 0; i < 200 * 8; ++i) EXPECT_EQ(std::isnan(x.o[i]), i / 8 == 57) << i;
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionOnCpu,
                         ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512,
                                           pool::Isa::avx512_bf16),
                         [](const auto& each) { return std::string(isa_name(each.param)); });

TEST(AttentionOnCpu, DescribesUnsupportedProblems) {
  AttentionProblem p{.dtype = DType::f32, .rows = 4, .keys = 4, .width = 8};
  p.q = p.k = p.v = p.o = {32, 32, 8};
  EXPECT_FALSE(unsupported_reason(p));
  p.dtype = DType::int8;
  EXPECT_EQ(unsupported_reason(p).text(), "expected f32, bf16 or f16, found int8");
  p.dtype = DType::f32;
  p.width = 300;
  EXPECT_EQ(unsupported_reason(p).text(), "expected heads of 1 … 256 elements, found 300");
  p.width = 8;
  p.cap = -1;
  EXPECT_EQ(unsupported_reason(p).text(), "expected a score cap above 0, or 0 for none, found -1");
  p.cap = 0;
  p.o.row = 7;
  EXPECT_EQ(unsupported_reason(p).text(), "o's rows overlap: expected a row stride of at least 8, found 7");
}

}  // namespace
}  // namespace ridge::ops

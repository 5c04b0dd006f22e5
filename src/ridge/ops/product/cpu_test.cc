// Compares every engine of this CPU with the reference implementation in f64: small integers (exact), odd shapes,
// layouts, strides, batches, dtypes, epilogues, outputs between guard pages, NaN in one row, any number of threads
// (testing/matmul_case.h). RIDGE_MATMUL_CASES=20000 runs 20000 random cases.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "ridge/base/float16.h"
#include "ridge/ops/product/reference.h"
#include "ridge/ops/product/testing/matmul_case.h"
#include "ridge/pool/testing/isa_fixture.h"
#include "ridge/tile/cpu/engine.h"

namespace ridge::ops {
namespace {

using product_testing::check_case, product_testing::GuardedBuffer, product_testing::Index, product_testing::MatmulCase,
    product_testing::make_simple_case, product_testing::describe_case, product_testing::TestValues;

void fill(const MatrixLayout& x, void* data, Index rows, Index cols, bool integers, unsigned seed) {
  fill_matrix(x, data, 1, rows, cols, integers ? TestValues::integers : TestValues::normals, seed);
}

class EveryIsa : public pool::IsaTest {};
INSTANTIATE_TEST_SUITE_P(Matmul, EveryIsa, testing::ValuesIn(pool::available_isas()),
                         [](const auto& param) { return std::string(pool::isa_name(param.param)); });

TEST_P(EveryIsa, SmallIntegersAreExact) {
  for (const DType in : {DType::f32, DType::bf16, DType::int8})
    for (const Index m : {1, 2, 5, 7, 13, 14, 15, 29, 113})
      for (const Index n : {1, 3, 8, 16, 17, 31, 33, 65})
        for (const Index k : {1, 2, 3, 17, 64, 65})
          for (int layouts = 0; layouts < 8; ++layouts) {
            if ((m * n + k + layouts) % 3 != 0 && m * n * k > 3000) continue;
            DType out = in == DType::bf16 && n % 2 ? in : DType::f32;
            if (in == DType::int8) out = DType::int32;
            MatmulCase c = make_simple_case(m, n, k, in, out, layouts);
            c.side = layouts % 2 ? GuardedBuffer::before : GuardedBuffer::after;
            ASSERT_EQ(check_case(c), "");
          }
}

TEST_P(EveryIsa, LargeShapesSpanSeveralBlocks) {
  for (const DType in : {DType::f32, DType::bf16, DType::int8}) {
    for (const auto& [m, n, k] : {std::array<Index, 3>{113, 129, 700},
                                  {225, 257, 71},
                                  {3, 1025, 300},
                                  {1, 700, 901},
                                  {500, 3, 333},
                                  {9, 600, 385},
                                  {64, 64, 1049},
                                  {11, 1501, 1401},
                                  {33, 100, 1200}}) {
      MatmulCase c =
          make_simple_case(m, n, k, in, in == DType::int8 ? DType::int32 : DType::f32, static_cast<int>((m + n) % 8));
      ASSERT_EQ(check_case(c), "");
      c.threads = 2;
      c.values = TestValues::normals;
      ASSERT_EQ(check_case(c), "");
    }
  }
}

TEST_P(EveryIsa, FewRowsSpanSeveralBlocks) {
  for (Index m = 1; m <= 9; ++m)
    for (const Index n : {4, 13, 263})  // Narrow and wide enough for blocks of 6, 16 and 128 columns
      for (const Index k : {Index{127}, Index{261}, n > 13 ? 520 : 32768 / m + 129})
        for (const int b_transposed : {0, 2}) {
          ASSERT_EQ(check_case(make_simple_case(m, n, k, DType::f32, DType::f32, b_transposed)), "");
          ASSERT_EQ(check_case(make_simple_case(m, n, k, DType::int8, DType::int32, b_transposed)), "");
          MatmulCase c = make_simple_case(m, n, k, DType::bf16, DType::f32, b_transposed);
          c.call.problem.b.dtype = DType::int8;
          ASSERT_EQ(check_case(c), "");
        }
  const Index far = std::max<Index>(811, pool::cache_sizes().l2 * 2 / (4 * 793) + 3);  // B exceeds the L2
  for (Index m = 10; m <= 16; ++m) ASSERT_EQ(check_case(make_simple_case(m, 793, far, DType::f32, DType::f32, 0)), "");
}

TEST_P(EveryIsa, EveryPairOfDtypesInEveryLayout) {
  constexpr DType floats[] = {DType::f32, DType::bf16, DType::f16};
  const auto all_layouts = [](DType a, DType b, DType d) {
    for (const auto& [m, n, k] : {std::array<Index, 3>{1, 33, 70}, {15, 17, 3}, {40, 70, 131}})
      for (int layouts = 0; layouts < 8; ++layouts) {
        MatmulCase c = make_simple_case(m, n, k, a, d, layouts);
        c.call.problem.b.dtype = b;
        ASSERT_EQ(check_case(c), "");
        c.values = TestValues::normals;
        c.threads = 2;
        ASSERT_EQ(check_case(c), "");
      }
  };
  for (const DType d : {DType::int32, DType::int8, DType::f32, DType::bf16, DType::f16})
    all_layouts(DType::int8, DType::int8, d);
  for (const DType a : floats)
    for (const DType d : floats) {
      all_layouts(a, a, d);
      all_layouts(a, DType::int8, d);
      all_layouts(DType::int8, a, d);
    }
}

// Covers 1 to 130 rows, short and long k, and D with contiguous rows or columns. The block-scaled operand is the right
// one, then the left one.
TEST_P(EveryIsa, BlockScaledOperandsAreConvertedExactly) {
  for (const DType scaled : {DType::mxfp8, DType::mxfp4, DType::nvfp4, DType::e4m3_128, DType::int4_32, DType::int4_64,
                             DType::int4_128, DType::u4_32, DType::u4_64, DType::u4_128})
    for (const DType other : {DType::f32, DType::bf16}) {
      if (scaled == DType::e4m3_128 && other == DType::bf16) continue;
      const Index block = dtype_info(scaled).block;
      for (const auto& [m, n, blocks] : {std::array<Index, 3>{1, 1, 1},
                                         {1, 37, 3},
                                         {3, 50, 5},
                                         {1, 29, 8448 / block},
                                         {5, 21, 3200 / block},
                                         {6, 3, 3200 / block},
                                         {7, 29, 2176 / block},
                                         {8, 33, 7},
                                         {9, 25, 1408 / block},
                                         {16, 49, 11},
                                         {17, 70, 2},
                                         {33, 70, 9},
                                         {41, 31, 1152 / block},
                                         {130, 65, 1}})
        for (const int layouts : {0, 4}) {
          MatmulCase c = make_simple_case(m, n, blocks * block, other, m % 2 == 0 ? DType::f32 : DType::bf16, layouts);
          MatmulProblem& p = c.call.problem;
          p.b = product_testing::make_layout(scaled, p.size.k, n, true, m % 3 * block);
          c.side = n % 2 == 0 ? GuardedBuffer::before : GuardedBuffer::after;
          ASSERT_EQ(check_case(c), "");
          c.values = TestValues::nan_row;
          c.threads = 2;
          ASSERT_EQ(check_case(c), "");
          p.a = product_testing::make_layout(scaled, m, p.size.k, false, block);
          p.b = product_testing::make_layout(other, p.size.k, n, layouts == 0);
          ASSERT_EQ(check_case(c), "");
        }
    }
}

TEST(MatmulTest, ScaledOperandsWithoutAnExactConversionAreRefused) {
  const auto refusal = [](DType a, DType b, Index k, MatrixLayout layout) {
    MatmulProblem p = make_simple_case(4, 6, k, DType::f32).call.problem;
    p.a.dtype = a;
    p.b = layout;
    p.b.dtype = b;
    const Reason reason = unsupported_reason(p);
    return reason ? std::string(reason.text()) : "";
  };
  const auto along_k = [](Index k) { return MatrixLayout{DType::f32, 1, k, 6 * k}; };
  EXPECT_EQ(refusal(DType::f32, DType::mxfp8, 64, along_k(64)), "");
  EXPECT_EQ(refusal(DType::bf16, DType::e4m3_128, 128, along_k(128)), "expected f32 with e4m3_128, found bf16");
  EXPECT_EQ(refusal(DType::bf16, DType::int4_128, 128, along_k(128)), "");
  EXPECT_EQ(refusal(DType::f16, DType::u4_64, 64, along_k(64)), "expected f32 or bf16 with u4_64, found f16");
  EXPECT_EQ(refusal(DType::bf16, DType::int4_64, 96, along_k(96)),
            "int4_64: expected k and strides in multiples of 64 elements, found 96");
  EXPECT_EQ(refusal(DType::f16, DType::mxfp4, 64, along_k(64)), "expected f32 or bf16 with mxfp4, found f16");
  EXPECT_EQ(refusal(DType::mxfp8, DType::mxfp4, 64, along_k(64)),
            "expected one block-scaled operand, found mxfp8 * mxfp4");
  EXPECT_EQ(refusal(DType::f32, DType::nvfp4, 64, {DType::f32, 6, 1, 6 * 64}),
            "nvfp4: expected blocks along k, found a stride of 6");
  EXPECT_EQ(refusal(DType::f32, DType::mxfp4, 48, along_k(48)),
            "mxfp4: expected k and strides in multiples of 32 elements, found 48");
  EXPECT_EQ(refusal(DType::f32, DType::mxfp4, 64, along_k(80)),
            "mxfp4: expected k and strides in multiples of 32 elements, found 80");
}

TEST_P(EveryIsa, Int8SumsAreExactUpToTheLargestK) {
  constexpr Index max_k = 131071;
  // 127 * 127 * k is odd and above 2^24, so f32 cannot represent it.
  for (const auto& [left, right] : {std::array<std::int8_t, 2>{-128, -128}, {-128, 127}, {127, -128}, {127, 127}})
    for (const auto& [m, n, k] : {std::array<Index, 3>{1, 1, max_k}, {5, 33, 3001}, {40, 70, 1801}})
      for (int layouts = 0; layouts < 4; ++layouts) {
        const std::vector<std::int8_t> a(m * k, left);
        const std::vector<std::int8_t> b(n * k, right);
        std::vector<std::int32_t> d(m * n);
        MatmulCase c = make_simple_case(m, n, k, DType::int8, DType::int32, layouts);
        ASSERT_FALSE(unsupported_reason(c.call.problem));
        matmul(c.call.problem, a.data(), b.data(), d.data(), 1);
        ASSERT_EQ(d, std::vector<std::int32_t>(d.size(), static_cast<std::int32_t>(left * right * k)))
            << describe_case(c);
      }
  EXPECT_EQ(unsupported_reason(make_simple_case(1, 1, max_k + 1, DType::int8, DType::int32).call.problem).text(),
            "expected k of at most 131071, where an int32 holds any sum of int8 products, found 131072");
}

TEST_P(EveryIsa, EpilogueStepsAreAppliedInOrder) {
  // One product of 1 x 1: 3 * 5 = 15; 2 * 0.5 * 15 + 1 = 16; relu; 16 * 3 - 2 * 7 = 34.
  const float a = 3, b = 5, scale = 0.5F, bias = 1, gate = 3, addend = 7;
  float d = 0;
  MatmulCall call{make_simple_case(1, 1, 1).call.problem, &a, &b, &d};
  call.epilogue = {2, -2, EpilogueActivation::relu, {&scale}, {&bias}, {&gate}, {&addend}};
  ASSERT_FALSE(unsupported_reason(call));
  matmul(call, 1);
  EXPECT_EQ(d, 34);
}

TEST_P(EveryIsa, Int8ResultsRoundToEvenAndSaturate) {
  const std::int8_t a[] = {1, 3, 5, 100, -100, 0}, b = 1;
  const float half = 0.5F, scales[] = {1, 1, 1, 10, 10, NAN};
  std::int8_t d[6] = {};
  MatmulCall call{make_simple_case(6, 1, 1, DType::int8, DType::int8).call.problem, a, &b, d};
  call.epilogue.alpha = half;
  call.epilogue.scale = {scales, DType::f32, 1, 0, 0};
  matmul(call, 1);
  EXPECT_EQ(std::vector<int>(d, d + 6), (std::vector<int>{0, 2, 2, 127, -128, 0}));
}

// Checks that one NaN in A and one in B affect only their row and column, in every layout.
template <class T> void expect_nan_stays(DType in, T one, T nan) {
  constexpr Index n = 70, k = 90;
  for (const Index m : {1, 3, 6, 8, 12, 40})
    for (int layouts = 0; layouts < 4; ++layouts) {
      const MatmulCase c = make_simple_case(m, n, k, in, DType::f32, layouts);
      const MatmulProblem& p = c.call.problem;
      std::vector<T> a(m * k, one), b(static_cast<std::size_t>(k * n), one);
      std::vector<float> d(m * n, -1);
      a[(m - 1) * p.a.row_stride + (k - 1) * p.a.col_stride] = nan;
      b[50 * p.b.row_stride + 33 * p.b.col_stride] = nan;
      matmul(p, a.data(), b.data(), d.data(), 1);
      for (Index r = 0; r < m; ++r)
        for (Index j = 0; j < n; ++j)
          ASSERT_EQ(std::isnan(d[r * n + j]), r == m - 1 || j == 33) << describe_case(c) << " " << r << " " << j;
    }
}

TEST_P(EveryIsa, NanStaysInItsRowAndInItsColumn) {
  expect_nan_stays<float>(DType::f32, 1, NAN);
  expect_nan_stays<Bf16>(DType::bf16, to_bf16(1), to_bf16(NAN));
}

TEST_P(EveryIsa, ResultsAreIdenticalForAnyThreadCount) {
  for (const DType in : {DType::f32, DType::bf16})
    for (const auto& [m, n, k] : {std::array<Index, 3>{100, 700, 900},
                                  {700, 40, 900},
                                  {7, 900, 901},
                                  {1, 800, 1000},
                                  {13, 1100, 2000},
                                  {37, 500, 700}}) {
      MatmulCase c = make_simple_case(m, n, k, in, DType::f32, static_cast<int>(n % 3));
      const std::size_t size = static_cast<std::size_t>(dtype_bits(in)) / 8;
      std::vector<char> a(static_cast<std::size_t>(m * k) * size), b(static_cast<std::size_t>(k * n) * size);
      fill(c.call.problem.a, a.data(), m, k, false, 3);
      fill(c.call.problem.b, b.data(), k, n, false, 4);
      std::vector<float> first(m * n), other(first.size());
      matmul(c.call.problem, a.data(), b.data(), first.data(), 1);
      for (const int threads : {1, 2, 3, 5, 2}) {
        matmul(c.call.problem, a.data(), b.data(), other.data(), threads);
        ASSERT_EQ(std::memcmp(first.data(), other.data(), first.size() * sizeof(float)), 0)
            << describe_case(c) << threads;
      }
    }
}

TEST_P(EveryIsa, DataMayBeMisaligned) {
  for (std::size_t shift = 1; shift < 64; shift += 3) {
    const MatmulCase c = make_simple_case(9, 37, 45, DType::bf16, DType::f32, static_cast<int>(shift % 4));
    std::vector<char> a(9 * 45 * 2 + 64), b(45 * 37 * 2 + 64);
    std::vector<float> d(9 * 37);
    fill(c.call.problem.a, a.data() + shift, 9, 45, true, 3);
    fill(c.call.problem.b, b.data() + shift, 45, 37, true, 4);
    matmul(c.call.problem, a.data() + shift, b.data() + shift, d.data(), 1);
    for (Index r = 0; r < 9; ++r)
      for (Index j = 0; j < 37; ++j)
        ASSERT_EQ(d[r * 37 + j], reference_element(c.call.problem, a.data() + shift, b.data() + shift, 0, r, j).value);
  }
}

TEST_P(EveryIsa, PackedWeightsGiveTheSameProducts) {
  std::vector<std::array<Index, 3>> sizes{{1, 70, 900}, {8, 300, 33}, {40, 129, 1500}, {3, 5, 0}};
  for (Index m = 1; m <= 9; ++m) sizes.insert(sizes.end(), {{m, 65, 7}, {m, 150, 203}});  // Around four panels
  for (const DType in : {DType::f32, DType::bf16, DType::int8})
    for (const auto& [m, n, k] : sizes) {
      MatmulCase c = make_simple_case(m, n, k, in, DType::f32, static_cast<int>(m % 4));
      const MatmulProblem& p = c.call.problem;
      const std::size_t size = static_cast<std::size_t>(dtype_bits(in)) / 8;
      std::vector<char> a(static_cast<std::size_t>(m * k) * size), b(static_cast<std::size_t>(k * n) * size);
      std::vector<float> d(m * n, -1);
      fill(p.a, a.data(), m, k, true, 3);
      fill(p.b, b.data(), k, n, true, 4);
      const PackedWeights packed(p, b.data());
      ASSERT_FALSE(unsupported_reason(p, packed));
      for (const int threads : {1, 2}) {
        matmul(p, a.data(), packed, d.data(), threads);
        for (Index r = 0; r < m; ++r)
          for (Index j = 0; j < n; ++j)
            ASSERT_EQ(d[r * n + j], reference_element(p, a.data(), b.data(), 0, r, j).value) << describe_case(c);
      }
    }
}

// A failing case can be run alone with RIDGE_MATMUL_FIRST=seed RIDGE_MATMUL_CASES=1.
TEST(MatmulReference, RandomCases) {
  const auto number = [](const char* name, int otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
  };
  const int first = number("RIDGE_MATMUL_FIRST", 0), cases = number("RIDGE_MATMUL_CASES", 600);
  const std::vector<pool::Isa> isas = pool::available_isas();
  const pool::Isa usual = pool::active_isa();
  int wrong = 0;
  for (int i = first; i < first + cases && wrong < 10; ++i) {
    pool::set_active_isa(isas[static_cast<std::size_t>(i) % isas.size()]);
    const std::string verdict = check_case(product_testing::make_random_case(static_cast<unsigned>(i)));
    wrong += !verdict.empty();
    EXPECT_EQ(verdict, "");
  }
  pool::set_active_isa(usual);
  RecordProperty("cases", cases);
  std::printf("%d random products, seeds %d … %d, %zu instruction sets: %d wrong\n", cases, first, first + cases - 1,
              isas.size(), wrong);
}

// Disables multiplying pairs of bf16, as on Intel; packed weights and up to four rows still use pairs.
TEST(MatmulTest, WidenedBf16GivesTheSameProducts) {
  const pool::Isa before = pool::active_isa();
  if (!pool::set_active_isa(pool::Isa::avx512_bf16)) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  pool::set_bf16_pairs(false);
  EXPECT_EQ(tile::cpu::find_engine(DType::bf16, DType::bf16)->per_unit, 1);
  EXPECT_EQ(tile::cpu::find_engine(DType::bf16, DType::bf16, pool::this_cpu(), true)->per_unit, 2);
  for (const DType b : {DType::bf16, DType::int8})
    for (const Index m : {1, 4, 5, 15, 29, 130})
      for (const Index n : {1, 17, 33, 530})
        for (const Index k : {1, 3, 65, 700})
          for (int layouts = 0; layouts < 8; ++layouts) {
            MatmulCase c = make_simple_case(m, n, k, DType::bf16, DType::f32, layouts);
            if ((m * n + k + layouts) % 3 != 0 && m * n * k > 3000) continue;
            c.call.problem.b.dtype = b;
            c.threads = 1 + layouts % 2;
            EXPECT_EQ(check_case(c), "");
            c.packed = layouts < 4;
            EXPECT_EQ(check_case(c), "");
          }
  for (const DType scaled : {DType::int4_64, DType::u4_128})
    for (const Index m : {1, 4, 5, 17}) {
      MatmulCase c = make_simple_case(m, 37, 640, DType::bf16, DType::f32, 0);
      c.call.problem.b = product_testing::make_layout(scaled, 640, 37, true);
      EXPECT_EQ(check_case(c), "");
    }
  pool::set_active_isa(before);
}

TEST(MatmulTest, PackedWeightsOfAnotherShapeAreRejected) {
  const std::vector<float> b(30);
  const PackedWeights packed(make_simple_case(4, 5, 6).call.problem, b.data());
  EXPECT_FALSE(unsupported_reason(make_simple_case(4, 5, 6).call.problem, packed));
  EXPECT_EQ(unsupported_reason(make_simple_case(4, 6, 5).call.problem, packed).text(),
            "b: expected weights of k 5 and n 6, found k 6 and n 5");
  EXPECT_EQ(unsupported_reason(make_simple_case(4, 5, 6, DType::bf16).call.problem, packed).text(),
            "b: expected weights packed for bf16 * bf16, found weights packed for f32 * f32");
  MatmulProblem scaled = make_simple_case(4, 5, 32, DType::f32, DType::f32, 2).call.problem;
  scaled.b.dtype = DType::mxfp8;
  EXPECT_EQ(unsupported_reason(scaled, packed).text(), "expected no block-scaled operand where the weights are packed");
  EXPECT_EQ(unsupported_reason(make_simple_case(4, 5, 6, DType::f32, DType::f32, 4).call.problem, packed).text(),
            "d: expected contiguous rows where the weights are packed, found contiguous columns");
}

// Tests the formats whose engines use non-temporal stores.
TEST_P(EveryIsa, NonTemporalStoresWriteAllElements) {
  constexpr Index m = 2900, n = 3008, k = 3;
  for (const DType in : {DType::f32, DType::bf16, DType::int8}) {
    const MatmulCase c = make_simple_case(m, n, k, in, in == DType::int8 ? DType::int32 : DType::f32);
    const std::size_t size = dtype_bits(in) / 8;
    std::vector<char> a(m * k * size), b(k * n * size);
    void* const d = std::aligned_alloc(64, m * n * 4);
    fill(c.call.problem.a, a.data(), m, k, true, 3);
    fill(c.call.problem.b, b.data(), k, n, true, 4);
    matmul(c.call.problem, a.data(), b.data(), d, 2);
    Index wrong = 0;
    for (Index r = 0; r < m; ++r)
      for (Index j = 0; j < n; ++j) {
        const Index at = r * n + j;
        double found = static_cast<const float*>(d)[at];
        if (in == DType::int8) found = static_cast<const std::int32_t*>(d)[at];
        wrong += found != reference_element(c.call.problem, a.data(), b.data(), 0, r, j).value;
      }
    EXPECT_EQ(wrong, 0) << dtype_name(in);
    std::free(d);
  }
}

TEST(MatmulTest, EmptySumsAreZeroAndEmptyOutputsAreUnchanged) {
  EXPECT_EQ(check_case(make_simple_case(5, 7, 0)), "");
  EXPECT_EQ(check_case(make_simple_case(5, 7, 0, DType::bf16, DType::bf16, 4)), "");
  EXPECT_EQ(check_case(make_simple_case(0, 7, 3)), "");
  EXPECT_EQ(check_case(make_simple_case(5, 0, 3)), "");
}

TEST(MatmulTest, UnsupportedReasonsStateExpectedAndFound) {
  const MatmulProblem good = make_simple_case(4, 5, 6).call.problem;
  EXPECT_FALSE(unsupported_reason(good));
  MatmulProblem p = good;
  p.size.m = -1;
  EXPECT_EQ(unsupported_reason(p).text(), "expected sizes of at least 0, found batch 1, m -1, n 5, k 6");
  p = good;
  p.b.dtype = DType::bf16;
  EXPECT_EQ(unsupported_reason(p).text(),
            "expected f32, bf16 or f16, both equal or one of them int8 -> f32, bf16 or f16; or int8 * int8 -> int32, "
            "int8, f32, bf16 or f16; found f32 * bf16 -> f32");
  p = good;
  p.a.col_stride = 2;
  EXPECT_EQ(unsupported_reason(p).text(), "a: expected rows or columns that are contiguous, found strides 6 and 2");
  p = good;
  p.d.row_stride = 4;
  EXPECT_EQ(unsupported_reason(p).text(), "d: expected a stride of at least 5, found 4: its rows would overlap");
  p = good;
  p.batch = 2;
  p.d.batch_stride = 0;
  EXPECT_EQ(unsupported_reason(p).text(),
            "d: expected a batch stride that steps over the other products, found 0: they would overlap");
  p.batch = 8;
  p.d.batch_stride = 1;
  EXPECT_EQ(unsupported_reason(p).text(),
            "d: expected a batch stride that steps over the other products, found 1: they would overlap");
  p.d.row_stride = 8 * p.size.n;
  p.d.batch_stride = p.size.n;  // Products alternate row by row
  EXPECT_FALSE(unsupported_reason(p));
  p.d.row_stride = 8 * p.size.n - 1;
  EXPECT_EQ(unsupported_reason(p).text(),
            "d: expected a batch stride that steps over the other products, found 5: they would overlap");
  p = good;
  p.b.batch_stride = -20;
  EXPECT_EQ(unsupported_reason(p).text(), "b: expected strides of at least 0, found 5, 1 and -20");
  MatmulCall call{make_simple_case(4, 5, 6, DType::int8, DType::int32).call.problem};
  EXPECT_FALSE(unsupported_reason(call));
  call.epilogue.alpha = 2;
  EXPECT_EQ(unsupported_reason(call).text(), "d: expected f32, bf16, f16 or int8 after an epilogue, found int32");
  call = {good};
  call.epilogue.bias = {&call, DType::int8};
  EXPECT_EQ(unsupported_reason(call).text(), "bias: expected bf16, f16 or f32, found int8");
}

}  // namespace
}  // namespace ridge::ops

// Small f32 products, which run without a schedule (tile/cpu/small.h): exact sums of integers between guard pages, and
// the same bits as with a schedule, which a batch of two products has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/testing/matmul_case.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using product_testing::check_case, product_testing::fill_matrix, product_testing::GuardedBuffer, product_testing::Index,
    product_testing::make_simple_case, product_testing::MatmulCase, product_testing::TestValues;

class SmallProducts : public pool::IsaTest {};
INSTANTIATE_TEST_SUITE_P(Matmul, SmallProducts, testing::ValuesIn(pool::available_isas()),
                         [](const auto& param) { return std::string(pool::isa_name(param.param)); });

TEST_P(SmallProducts, AreExactInEveryLayout) {
  for (const Index m : {1, 2, 4, 6, 7, 9, 14, 15, 41, 128})
    for (const Index n : {1, 3, 5, 8, 11, 16, 20, 25, 32, 33, 48, 49, 64, 65, 128})
      for (const Index k : {1, 4, 7, 16, 17, 63, 128})
        for (int layouts = 0; layouts < 8; ++layouts) {
          if ((m * 3 + n + k + layouts) % 5 != 0 && m * n * k > 3000) continue;
          MatmulCase c = make_simple_case(m, n, k, DType::f32, DType::f32, layouts);
          c.side = layouts % 2 ? GuardedBuffer::before : GuardedBuffer::after;
          ASSERT_EQ(check_case(c), "");
        }
}

TEST_P(SmallProducts, HaveTheBitsOfProductsWithASchedule) {
  std::mt19937 random(1);
  const auto draw = [&](Index limit) { return 1 + static_cast<Index>(random()) % limit; };
  for (int i = 0; i < 800; ++i) {
    const bool is_thin = i % 4 == 0, is_narrow = i % 4 == 1;
    const Index m = draw(is_thin ? 15 : 128);
    Index n = draw(i % 3 ? 20 : 128);
    if (is_thin) n += draw(500);
    if (is_narrow) n = 1 + n % 8;
    const Index k = draw(is_thin || is_narrow ? 700 : 128);
    MatmulProblem p = make_simple_case(m, n, k, DType::f32, DType::f32, i / 4 % 8).call.problem;
    std::vector<float> a(m * k), b(k * n), d(m * n), pair(2 * m * n);
    fill_matrix(p.a, a.data(), 1, m, k, TestValues::normals, i);
    fill_matrix(p.b, b.data(), 1, k, n, TestValues::normals, i + 1);
    matmul(p, a.data(), b.data(), d.data(), 1);
    p.batch = 2;
    p.a.batch_stride = p.b.batch_stride = 0;
    p.d.batch_stride = m * n;
    matmul(p, a.data(), b.data(), pair.data(), 1);
    const auto same_bits = [](float x, float y) {
      return __builtin_bit_cast(std::uint32_t, x) == __builtin_bit_cast(std::uint32_t, y);
    };
    ASSERT_TRUE(std::ranges::equal(d, std::span(pair).first(d.size()), same_bits)) << m << "x" << n << "x" << k;
    ASSERT_TRUE(std::ranges::equal(d, std::span(pair).last(d.size()), same_bits)) << m << "x" << n << "x" << k;
  }
}

}  // namespace
}  // namespace ridge::ops

// Compiled chains, with lambdas of this file (which is compiled for no instruction set in particular) and on every
// instruction set with the menu's texts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "ridge/ops/chain/map.h"
#include "ridge/ops/chain/map_menu.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;

template <class T> T stored(float x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(x);
  else if constexpr (std::is_same_v<T, F16>)
    return to_f16(x);
  else
    return x;
}
float value(float x) { return x; }
template <class T> float value(T x) { return to_float(x); }

template <class Y, class A, class B> void every_size() {
  for (std::int64_t n = 0; n <= 300; n += n < 140 ? 1 : 29) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<A> a(size);
    std::vector<B> b(size);
    std::vector<Y> y(size + 2, stored<Y>(-77));
    for (std::size_t i = 0; i < size; ++i) {
      a[i] = stored<A>(static_cast<float>(i % 13));
      b[i] = stored<B>(static_cast<float>(i % 7) - 3);
    }
    map(
        n, [](auto u, auto v) { return max(2 * u - 1, v * v + u); }, 1, y.data() + 1, a.data(), b.data());
    for (std::size_t i = 0; i < size; ++i) {
      const float u = value(a[i]), v = value(b[i]);
      ASSERT_EQ(value(y[i + 1]), std::max(2 * u - 1, v * v + u)) << n << ", " << i;
    }
    ASSERT_EQ(value(y.front()), -77) << n;
    ASSERT_EQ(value(y.back()), -77) << n;
  }
}

TEST(Map, every_size_and_type_gives_the_elements_and_nothing_beside_them) {
  every_size<float, float, float>();
  every_size<Bf16, Bf16, Bf16>();
  every_size<F16, F16, F16>();
  every_size<float, Bf16, F16>();
  every_size<Bf16, float, F16>();
}

TEST(Map, one_array_and_three) {
  std::vector<float> x{1, 4, 9}, y(3), z{1, 1, 2};
  map(
      3, [](auto v) { return sqrt(v); }, 1, y.data(), x.data());
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3}));
  map(
      3, [](auto a, auto b, auto c) { return where(less(a, b), c, 0.5f / c); }, 2, x.data(), y.data(), z.data(),
      z.data());
  EXPECT_EQ(x, (std::vector<float>{0.5, 0.5, 0.25}));
}

template <class T> void streamed(DType dtype) {
  const std::int64_t n = cpu::caches().l3 / static_cast<std::int64_t>(3 * sizeof(T)) + 4321;
  std::vector<T> x(static_cast<std::size_t>(n)), r(x.size()), y(x.size() + 3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = stored<T>(static_cast<float>(i % 31) - 9);
    r[i] = stored<T>(static_cast<float>(i % 5) * 0.25f);
  }
  const cpu::Isa before = cpu::isa();
  for (const cpu::Isa isa : cpu::available_isas())
    for (const std::size_t shift : {0, 3}) {
      ASSERT_TRUE(cpu::use_isa(isa));
      std::fill(y.begin(), y.end(), stored<T>(-77));
      map_text({MapText::affine, dtype, n, x.data(), r.data(), y.data() + shift, 2});
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float u = 1.3f * value(x[i]) + 0.2f, exact = value(stored<T>(std::max(u, 0.0f) * value(r[i])));
        ASSERT_EQ(value(y[i + shift]), exact) << i << " on " << cpu::name(isa);
      }
      for (std::size_t i = 0; i < shift; ++i) ASSERT_EQ(value(y[i]), -77);
      if (shift == 0) {
        ASSERT_EQ(value(y.back()), -77);
      }
    }
  cpu::use_isa(before);
}

TEST(Map, large_arrays_are_streamed_to_the_same_values_on_every_instruction_set) {
  streamed<float>(DType::f32);
  streamed<Bf16>(DType::bf16);
  streamed<F16>(DType::f16);
}

}  // namespace
}  // namespace ridge::ops

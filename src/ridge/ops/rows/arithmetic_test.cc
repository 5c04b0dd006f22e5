// Tests that the roof of `ridge bench stream` has the kernel's own instructions: both run with vectors that count their
// operations.
#include "ridge/ops/rows/arithmetic.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ridge/ops/chain/body.h"
#include "ridge/ops/rows/arithmetic_body.h"
#include "ridge/ops/rows/body.h"

namespace ridge::ops {
namespace {

using Counts = std::map<std::string, long>;
Counts counts;

struct CountedMask {
  FloatLanes::Mask v;
};
struct CountedInt {
  FloatLanes::Int v;
  static CountedInt broadcast(std::int32_t x) { return {FloatLanes::Int::broadcast(x)}; }
  static CountedInt load(const std::int32_t* p) { return {FloatLanes::Int::load(p)}; }
};
struct Counted {
  using Int = CountedInt;
  using Mask = CountedMask;
  static constexpr int lanes = FloatLanes::lanes;
  static constexpr bool has_even_odd = false;
  FloatLanes v;

  static Counted broadcast(float x) { return {FloatLanes::broadcast(x)}; }
  template <class T> static Counted load(const T* p) {
    ++counts["load"];
    return Counted{FloatLanes::load(p)};
  }
  static Counted load_partial(const float* p, int n) {
    ++counts["load"];
    return Counted{FloatLanes::load_partial(p, n)};
  }
  template <class T> void store(T* p) const {
    ++counts["store"];
    v.store(p);
  }
  void store_partial(float* p, int n) const {
    ++counts["store"];
    v.store_partial(p, n);
  }
  template <class T> static void stream_pair(Counted a, Counted b, T* p) {
    counts["stream"] += 2;
    FloatLanes::stream_pair(a.v, b.v, p);
  }
  static void store_fence() { ++counts["fence"]; }
};
Counted operator+(Counted a, Counted b) {
  ++counts["add"];
  return Counted{a.v + b.v};
}
Counted operator-(Counted a, Counted b) {
  ++counts["add"];
  return Counted{a.v - b.v};
}
Counted operator*(Counted a, Counted b) {
  ++counts["multiply"];
  return Counted{a.v * b.v};
}
Counted operator/(Counted a, Counted b) {
  ++counts["divide"];
  return Counted{a.v / b.v};
}
Counted fma(Counted a, Counted b, Counted c) {
  ++counts["fma"];
  return Counted{fma(a.v, b.v, c.v)};
}
Counted sqrt(Counted a) {
  ++counts["sqrt"];
  return Counted{sqrt(a.v)};
}
Counted lane_min(Counted a, Counted b) {
  ++counts["larger"];
  return Counted{lane_min(a.v, b.v)};
}
Counted lane_max(Counted a, Counted b) {
  ++counts["larger"];
  return Counted{lane_max(a.v, b.v)};
}
CountedMask operator<(Counted a, Counted b) {
  ++counts["compare"];
  return CountedMask{a.v < b.v};
}
CountedMask operator==(Counted a, Counted b) {
  ++counts["compare"];
  return CountedMask{a.v == b.v};
}
CountedMask is_nan(Counted a) {
  ++counts["compare"];
  return CountedMask{is_nan(a.v)};
}
bool any_lane(CountedMask m) {
  ++counts["any"];
  return any_lane(m.v);
}
Counted select(CountedMask m, Counted a, Counted b) {
  ++counts["select"];
  return Counted{select(m.v, a.v, b.v)};
}
CountedInt as_int(Counted a) { return {as_int(a.v)}; }
Counted as_float(CountedInt a) { return {as_float(a.v)}; }
CountedInt to_int(Counted a) {
  ++counts["convert"];
  return CountedInt{to_int(a.v)};
}
Counted to_float(CountedInt a) {
  ++counts["convert"];
  return Counted{to_float(a.v)};
}
CountedInt operator+(CountedInt a, CountedInt b) {
  ++counts["integer"];
  return CountedInt{a.v + b.v};
}
CountedInt operator-(CountedInt a, CountedInt b) {
  ++counts["integer"];
  return CountedInt{a.v - b.v};
}
CountedInt operator&(CountedInt a, CountedInt b) {
  ++counts["integer"];
  return CountedInt{a.v & b.v};
}
CountedInt operator^(CountedInt a, CountedInt b) {
  ++counts["integer"];
  return CountedInt{a.v ^ b.v};
}
template <int n> CountedInt shift_left(CountedInt a) {
  ++counts["integer"];
  return CountedInt{shift_left<n>(a.v)};
}
template <int n> CountedInt shift_right(CountedInt a) {
  ++counts["integer"];
  return CountedInt{shift_right<n>(a.v)};
}
CountedMask is_zero(CountedInt a) {
  ++counts["compare"];
  return CountedMask{is_zero(a.v)};
}
float sum_lanes(Counted a) {
  ++counts["sum"];
  return sum_lanes(a.v);
}

template <class F> Counts counted(F f) {
  counts.clear();
  f();
  return counts;
}
template <class T> constexpr DType dtype_of = std::is_same_v<T, float>  ? DType::f32
                                              : std::is_same_v<T, Bf16> ? DType::bf16
                                                                        : DType::f16;

template <class T> Counts of_rows(RowFunction function, std::int64_t rows, std::int64_t columns) {
  std::vector<T> x(static_cast<std::size_t>(rows * columns)), y(x.size()), w(static_cast<std::size_t>(columns));
  const Counted half = Counted::broadcast(0.5f);
  for (std::size_t i = 0; i < x.size(); i += Counted::lanes) half.store(x.data() + i);
  for (std::size_t i = 0; i < w.size(); i += Counted::lanes) half.store(w.data() + i);
  std::vector<float> scratch(static_cast<std::size_t>(tile::cpu::row_scratch_floats(columns)));
  const tile::cpu::RowsPart part{0, rows, columns, scratch.data(), false, true};
  return counted([&] {
    if (function == RowFunction::softmax)
      tile::cpu::run_rows<Counted, Softmax<T, T>>({{x.data(), columns}, {y.data(), columns}}, part);
    else
      tile::cpu::run_rows<Counted, Rmsnorm<T, T, T>>({{x.data(), columns}, {w.data()}, {y.data(), columns}}, part);
  });
}
template <class T> Counts roof(ArithmeticKernel text, std::int64_t n, std::int64_t columns = 0) {
  return counted([&] { run_arithmetic<Counted, T>({text, dtype_of<T>, n, columns}); });
}
// `CachedVectors` first fills pairs * 2 vectors of each of three arrays.
template <class T> Counts filling() {
  return counted([] { CachedVectors<Counted, T> spot; });
}
Counts less(Counts a, const Counts& b) {
  for (const auto& [name, count] : b)
    if ((a[name] -= count) == 0) a.erase(name);
  return a;
}

template <class T> void expect_rows() {
  for (const std::int64_t columns : {1024, 4096})
    for (const RowFunction function : {RowFunction::rmsnorm, RowFunction::softmax}) {
      const auto text = function == RowFunction::softmax ? ArithmeticKernel::softmax : ArithmeticKernel::rmsnorm;
      EXPECT_EQ(of_rows<T>(function, 8, columns), less(roof<T>(text, 8 * columns, columns), filling<T>()))
          << dtype_name(dtype_of<T>) << ", " << columns << " columns, " << (text == ArithmeticKernel::softmax);
    }
}
TEST(Arithmetic, has_the_row_kernels_instructions) {
  expect_rows<float>();
  expect_rows<Bf16>();
  expect_rows<F16>();
}

TEST(Arithmetic, rmsnorm_takes_three_loads_of_which_two_rows_share_one_and_a_store_for_each_vector) {
  const std::int64_t vectors = 8 * 1024 / Counted::lanes;
  const Counts of = of_rows<float>(RowFunction::rmsnorm, 8, 1024);
  EXPECT_EQ(of.at("load"), vectors * 5 / 2);
  EXPECT_EQ(of.at("store"), vectors);
  EXPECT_EQ(of.at("fma"), vectors);
  EXPECT_EQ(of.at("multiply"), 2 * vectors);
  EXPECT_EQ(of.at("sum"), 8);
}

constexpr std::int64_t many = 4096;
Counts of_text(ArithmeticKernel text) {
  const std::vector<float> x(many, 0.5f), r(many, 0.5f);
  std::vector<float> y(many);
  return counted([&] { run_chain<Counted>({text, DType::f32, many, x.data(), r.data(), y.data()}); });
}
TEST(Arithmetic, has_the_compiled_chains_instructions) {
  for (const ArithmeticKernel text : {ArithmeticKernel::affine, ArithmeticKernel::gelu})
    EXPECT_EQ(of_text(text), less(roof<float>(text, many), filling<float>()));
}

// Sizes around vector multiples, addresses off a cache line, and non-temporal stores.
template <class T> void expect_chain(DType dtype, std::int64_t n, std::size_t shift) {
  const auto size = static_cast<std::size_t>(n);
  const auto stored = [](float value) {
    T to;
    store_partial(FloatLanes::broadcast(value), &to, 1);
    return to;
  };
  const auto value = [](T from) {
    if constexpr (std::is_same_v<T, float>)
      return from;
    else
      return to_float(from);
  };
  std::vector<T> x(size), r(size), y(size + shift + 1, stored(-77));
  for (std::size_t i = 0; i < size; ++i) {
    x[i] = stored(static_cast<float>(i % 31) - 9);
    r[i] = stored(static_cast<float>(i % 5) * 0.25f);
  }
  run_compiled_chain({ArithmeticKernel::affine, dtype, n, x.data(), r.data(), y.data() + shift});
  for (std::size_t i = 0; i < size; ++i) {
    const float u = 1.3f * value(x[i]) + 0.2f;
    ASSERT_EQ(value(y[i + shift]), value(stored(std::max(u, 0.0f) * value(r[i])))) << i << " of " << n;
  }
  for (std::size_t i = 0; i < shift; ++i) ASSERT_EQ(value(y[i]), -77);
  ASSERT_EQ(value(y.back()), -77) << n;
}
TEST(CompiledChain, GivesEverySizeOnEveryInstructionSet) {
  const pool::Isa before = pool::active_isa();
  const std::int64_t large = pool::cache_sizes().l3 / 6 + 4321;
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    for (std::int64_t n = 0; n <= 300; n += n < 140 ? 1 : 29) {
      expect_chain<float>(DType::f32, n, 1);
      expect_chain<Bf16>(DType::bf16, n, 1);
      expect_chain<F16>(DType::f16, n, 1);
    }
    for (const std::size_t shift : {0, 3}) {
      expect_chain<float>(DType::f32, large, shift);
      expect_chain<Bf16>(DType::bf16, large, shift);
    }
  }
  pool::set_active_isa(before);
}

Counts of_chain(ChainOp bend) {
  std::vector<float> x(many, 0.5f), r(many, 0.5f), y(many);
  const ChainTensor flat{DType::f32, {1}};
  const ChainProgram program{{many},
                             {flat, flat, flat},
                             {{.op = ChainOp::load, .result = 0, .slot = 0},
                              {.op = ChainOp::constant, .result = 1, .constant = 1.3f},
                              {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
                              {.op = ChainOp::constant, .result = 1, .constant = 0.2f},
                              {.op = ChainOp::add, .result = 0, .a = 0, .b = 1},
                              {.op = bend, .result = 0, .a = 0},
                              {.op = ChainOp::load, .result = 1, .slot = 1},
                              {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
                              {.op = ChainOp::store, .a = 0, .slot = 2}},
                             2};
  const ChainCode code = lower_chain(program);
  std::vector<float> scratch(static_cast<std::size_t>(chain_scratch_floats(code)));
  void* const tensors[] = {x.data(), r.data(), y.data()};
  return counted([&] { ChainRunner<Counted>({code, tensors, 0, code.block_count(), scratch.data()}).run_blocks(); });
}
TEST(Arithmetic, has_an_interpreted_chains_instructions) {
  for (const auto& [bend, text] :
       {std::pair{ChainOp::relu, ArithmeticKernel::affine}, std::pair{ChainOp::gelu, ArithmeticKernel::gelu}})
    EXPECT_EQ(of_chain(bend), less(roof<float>(text, many), filling<float>()));
}

}  // namespace
}  // namespace ridge::ops

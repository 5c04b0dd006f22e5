// Tests that the roof loops of `ridge bench stream` execute the instructions of the kernels: both run with vectors that
// count their operations.
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

template <class F> Counts count_operations(F f) {
  counts.clear();
  f();
  return counts;
}
template <class T> Counts count_row_kernel(RowFunction function, std::int64_t rows, std::int64_t columns) {
  std::vector<T> x(rows * columns), y(x.size()), w(static_cast<std::size_t>(columns));
  const Counted half = Counted::broadcast(0.5f);
  for (std::size_t i = 0; i < x.size(); i += Counted::lanes) half.store(x.data() + i);
  for (std::size_t i = 0; i < w.size(); i += Counted::lanes) half.store(w.data() + i);
  std::vector<float> scratch(tile::cpu::row_scratch_floats(columns));
  const tile::cpu::ThreadRows part{0, rows, columns, scratch.data(), false, true};
  return count_operations([&] {
    if (function == RowFunction::softmax)
      tile::cpu::run_rows<Counted, Softmax<T, T>>({{x.data(), columns}, {y.data(), columns}}, part);
    else
      tile::cpu::run_rows<Counted, Rmsnorm<T, T, T>>({{x.data(), columns}, {w.data()}, {y.data(), columns}}, part);
  });
}
template <class T> Counts count_roof_loop(RoofKernel kernel, std::int64_t n, std::int64_t columns = 0) {
  return count_operations([&] { run_cached_loop<Counted, T>({kernel, dtype_of<T>, n, columns}); });
}
// `L1ResidentLoops` first stores pairs * 2 vectors in each of three arrays.
template <class T> Counts count_initial_stores() {
  return count_operations([] { L1ResidentLoops<Counted, T> loops; });
}
Counts subtract_counts(Counts a, const Counts& b) {
  for (const auto& [name, count] : b)
    if ((a[name] -= count) == 0) a.erase(name);
  return a;
}

template <class T> void expect_rows() {
  for (const std::int64_t columns : {1024, 4096})
    for (const RowFunction function : {RowFunction::rmsnorm, RowFunction::softmax}) {
      const auto kernel = function == RowFunction::softmax ? RoofKernel::softmax : RoofKernel::rmsnorm;
      EXPECT_EQ(count_row_kernel<T>(function, 8, columns),
                subtract_counts(count_roof_loop<T>(kernel, 8 * columns, columns), count_initial_stores<T>()))
          << dtype_name(dtype_of<T>) << ", " << columns << " columns, " << (kernel == RoofKernel::softmax);
    }
}
TEST(RoofLoops, roof_loop_executes_the_row_kernels_instructions) {
  expect_rows<float>();
  expect_rows<Bf16>();
  expect_rows<F16>();
}

TEST(RoofLoops, rmsnorm_executes_the_expected_instructions) {
  const std::int64_t vectors = 8 * 1024 / Counted::lanes;
  const Counts rmsnorm_counts = count_row_kernel<float>(RowFunction::rmsnorm, 8, 1024);
  EXPECT_EQ(rmsnorm_counts.at("load"), vectors * 5 / 2);
  EXPECT_EQ(rmsnorm_counts.at("store"), vectors);
  EXPECT_EQ(rmsnorm_counts.at("fma"), vectors);
  EXPECT_EQ(rmsnorm_counts.at("multiply"), 2 * vectors);
  EXPECT_EQ(rmsnorm_counts.at("sum"), 8);
}

constexpr std::int64_t chain_elements = 4096;
Counts count_compiled_chain(RoofKernel kernel) {
  const std::vector<float> x(chain_elements, 0.5f), r(chain_elements, 0.5f);
  std::vector<float> y(chain_elements);
  return count_operations([&] {
    run_chain<Counted>({kernel, DType::f32, chain_elements, x.data(), r.data(), y.data()});
  });
}
TEST(RoofLoops, roof_loop_executes_the_compiled_chains_instructions) {
  for (const RoofKernel kernel : {RoofKernel::affine, RoofKernel::gelu})
    EXPECT_EQ(count_compiled_chain(kernel),
              subtract_counts(count_roof_loop<float>(kernel, chain_elements), count_initial_stores<float>()));
}

// Sizes around vector multiples, addresses off a cache line, and non-temporal stores.
template <class T> void expect_chain(DType dtype, std::int64_t n, std::size_t shift) {
  const std::size_t size = n;
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
  run_compiled_chain({RoofKernel::affine, dtype, n, x.data(), r.data(), y.data() + shift});
  for (std::size_t i = 0; i < size; ++i) {
    const float u = 1.3f * value(x[i]) + 0.2f;
    ASSERT_EQ(value(y[i + shift]), value(stored(std::max(u, 0.0f) * value(r[i])))) << i << " of " << n;
  }
  for (std::size_t i = 0; i < shift; ++i) ASSERT_EQ(value(y[i]), -77);
  ASSERT_EQ(value(y.back()), -77) << n;
}
TEST(CompiledChain, IsRightForAllSizesAndInstructionSets) {
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

Counts count_interpreted_chain(ChainOp activation) {
  std::vector<float> x(chain_elements, 0.5f), r(chain_elements, 0.5f), y(chain_elements);
  const ChainTensor flat{DType::f32, {1}};
  const ChainProgram program{{chain_elements},
                             {flat, flat, flat},
                             {{.op = ChainOp::load, .result = 0, .slot = 0},
                              {.op = ChainOp::constant, .result = 1, .constant = 1.3f},
                              {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
                              {.op = ChainOp::constant, .result = 1, .constant = 0.2f},
                              {.op = ChainOp::add, .result = 0, .a = 0, .b = 1},
                              {.op = activation, .result = 0, .a = 0},
                              {.op = ChainOp::load, .result = 1, .slot = 1},
                              {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
                              {.op = ChainOp::store, .a = 0, .slot = 2}},
                             2};
  const LoweredChain code = lower_chain(program);
  std::vector<float> scratch(chain_scratch_floats(code));
  void* const tensors[] = {x.data(), r.data(), y.data()};
  return count_operations([&] {
    ChainRunner<Counted>({code, tensors, 0, code.block_count(), scratch.data()}).run_blocks();
  });
}
TEST(RoofLoops, roof_loop_executes_the_interpreted_chains_instructions) {
  for (const auto& [activation, kernel] :
       {std::pair{ChainOp::relu, RoofKernel::affine}, std::pair{ChainOp::gelu, RoofKernel::gelu}})
    EXPECT_EQ(count_interpreted_chain(activation),
              subtract_counts(count_roof_loop<float>(kernel, chain_elements), count_initial_stores<float>()));
}

}  // namespace
}  // namespace ridge::ops

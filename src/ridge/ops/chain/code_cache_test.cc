// Tests the per-thread cache of lowered chains. Programs that differ in a single property run alternately; each must
// produce its own result.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/chain/testing/chain_reference.h"

namespace ridge::ops {
namespace {

constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr std::size_t tensor_bytes = 1024;  // Enough for every program, so that a wrong program does not crash.

std::string describe_program(const ChainProgram& p) {
  std::string out = fmt::format("extents {}", fmt::join(p.extents, " "));
  for (const ChainTensor& t : p.tensors)
    out += fmt::format(", {} [{}]", dtype_name(t.dtype), fmt::join(t.strides, " "));
  for (const ChainStep& s : p.steps)
    out += fmt::format(", {}: {} <- {} {} {} slot {} {} x{}", static_cast<int>(s.op), s.result, s.a, s.b, s.c, s.slot,
                       s.constant, s.repeat);
  return out;
}

class LoweredChainCache : public ::testing::Test {
 protected:
  int random_below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  float random_small() { return static_cast<float>(random_below(9) - 4); }

  // Two inputs and an output over three axes: out = op(op(x, y), c).
  ChainProgram random_program() {
    constexpr ChainOp ops[] = {ChainOp::add, ChainOp::subtract, ChainOp::multiply, ChainOp::max, ChainOp::min};
    ChainProgram p;
    const std::int64_t n = 2 + random_below(3);
    p.extents = {n, n, 2 + random_below(2)};
    for (int t = 0; t < 3; ++t) p.tensors.push_back({dtypes[random_below(3)], contiguous_strides(p.extents)});
    p.registers = 3;
    p.steps = {{.op = ChainOp::load, .result = 0, .slot = 0},
               {.op = ChainOp::load, .result = 1, .slot = 1},
               {.op = ChainOp::constant, .result = 2, .constant = random_small()},
               {.op = ops[random_below(5)], .result = 0, .a = 0, .b = 1},
               {.op = ChainOp::negate, .result = 1, .a = 1, .repeat = 1 + random_below(2)},
               {.op = ops[random_below(5)], .result = 0, .a = 0, .b = random_below(2) + 1},
               {.op = ChainOp::store, .a = 0, .slot = 2}};
    return p;
  }
  static std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& e) {
    return {e[1] * e[2], e[2], 1};
  }

  ChainProgram change_one_property(ChainProgram p) {
    const auto input = static_cast<std::size_t>(random_below(2)), axis = static_cast<std::size_t>(random_below(3));
    switch (random_below(9)) {
      case 0: p.tensors[input].strides[axis] = 0; break;  // broadcast along an axis
      case 1: std::swap(p.tensors[input].strides[0], p.tensors[input].strides[1]); break;
      case 2: std::swap(p.tensors[2].strides[0], p.tensors[2].strides[1]); break;
      case 3: p.tensors[random_below(3)].dtype = dtypes[random_below(3)]; break;
      case 4: p.extents[axis] -= 1; break;
      case 5: p.steps[2].constant = random_below(4) == 0 ? -p.steps[2].constant : random_small(); break;
      case 6: p.steps[3].op = p.steps[3].op == ChainOp::add ? ChainOp::multiply : ChainOp::add; break;
      case 7: p.steps[4].repeat = 3 - p.steps[4].repeat; break;
      default: std::swap(p.steps[3].a, p.steps[3].b);
    }
    return p;
  }

  // Returns a message about the first element that differs from the reference, or an empty string.
  std::string first_mismatch(const ChainProgram& p) {
    std::vector<std::vector<char>> got(3, std::vector<char>(tensor_bytes, '\x7b'));
    for (std::size_t t = 0; t < 2; ++t)
      for (std::int64_t i = 0; i < 128; ++i)
        testing::write_element(got[t].data(), p.tensors[t].dtype, i, random_small());
    std::vector<std::vector<char>> expected = got;
    void* const to[] = {got[0].data(), got[1].data(), got[2].data()};
    void* const references[] = {expected[0].data(), expected[1].data(), expected[2].data()};
    run_chain_program(p, to, 1);
    testing::run_reference(p, references);
    const DType dtype = p.tensors[2].dtype;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(tensor_bytes) * 8 / dtype_bits(dtype); ++i) {
      const float a = testing::read_element(got[2].data(), dtype, i),
                  b = testing::read_element(expected[2].data(), dtype, i);
      if (!testing::is_same_value(a, b)) return fmt::format("element {} is {}, expected {}", i, a, b);
    }
    return "";
  }

  std::mt19937 random_{11};
};

TEST_F(LoweredChainCache, DistinguishesStrides) {
  ChainProgram p;  // a + b[D], then a + b[N], with N = D
  p.extents = {5, 5};
  p.tensors = {{DType::f32, {5, 1}}, {DType::f32, {0, 1}}, {DType::f32, {5, 1}}};
  p.steps = {{.op = ChainOp::load, .result = 0, .slot = 0},
             {.op = ChainOp::load, .result = 1, .slot = 1},
             {.op = ChainOp::add, .result = 0, .a = 0, .b = 1},
             {.op = ChainOp::store, .a = 0, .slot = 2}};
  p.registers = 2;
  EXPECT_EQ(first_mismatch(p), "");
  p.tensors[1].strides = {1, 0};
  EXPECT_EQ(first_mismatch(p), "");
}

TEST_F(LoweredChainCache, DistinguishesProgramsThatDifferInOneProperty) {
  const char* requested = std::getenv("RIDGE_PROGRAMS");
  const int rounds = requested == nullptr ? 3000 : std::atoi(requested);
  for (int round = 0; round < rounds; ++round) {
    std::vector<ChainProgram> family{random_program()};
    for (int i = 0; i < 4; ++i) family.push_back(change_one_property(family[random_below(i + 1)]));
    for (int turn = 0; turn < 8; ++turn) {
      const ChainProgram& p = family[random_below(5)];
      ASSERT_FALSE(unsupported_reason(p));
      ASSERT_EQ(first_mismatch(p), "") << "round " << round << ": " << describe_program(p);
    }
  }
}

}  // namespace
}  // namespace ridge::ops

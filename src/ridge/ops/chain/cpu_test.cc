// Tests chains against an element-by-element reference, on every instruction set of this CPU. Each operation of the
// random programs rounds once, so the f32 reference is exact.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/chain/testing/chain_reference.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

using testing::is_same_value;
using testing::random_layout;
using testing::read_element;
using testing::run_reference;
using testing::TensorLayout;
using testing::write_element;

// A poisoned buffer that ends `shift` bytes before a protected page or begins `shift` bytes after one.
class GuardedBuffer {
 public:
  enum GuardSide { before, after };
  GuardedBuffer(std::size_t bytes, GuardSide guard, std::size_t shift = 0) : bytes_(bytes) {
    inner_bytes_ = (bytes + shift + page_bytes - 1) / page_bytes * page_bytes;
    map_ = static_cast<char*>(
        mmap(nullptr, inner_bytes_ + 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_, page_bytes, PROT_NONE);
    mprotect(map_ + page_bytes + inner_bytes_, page_bytes, PROT_NONE);
    std::memset(map_ + page_bytes, poison, inner_bytes_);
    data_ = guard == before ? map_ + page_bytes + shift : map_ + page_bytes + inner_bytes_ - bytes - shift;
  }
  ~GuardedBuffer() { munmap(map_, inner_bytes_ + 2 * page_bytes); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  char* data() const { return data_; }
  bool is_surrounding_intact() const {
    for (char* p = map_ + page_bytes; p < map_ + page_bytes + inner_bytes_; ++p)
      if ((p < data_ || p >= data_ + bytes_) && *p != poison) return false;
    return true;
  }

 private:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr char poison = 0x7b;
  std::size_t bytes_, inner_bytes_ = 0;
  char *map_ = nullptr, *data_ = nullptr;
};

// out = where(less(x, r), x*c, x - r), in one dimension
ChainProgram sample_program(std::int64_t n, DType x = DType::f32, DType r = DType::f32, DType out = DType::f32) {
  ChainProgram p;
  p.extents = {n};
  p.tensors = {{x, {1}}, {r, {1}}, {out, {1}}};
  p.steps = {{.op = ChainOp::load, .result = 0, .slot = 0},
             {.op = ChainOp::load, .result = 1, .slot = 1},
             {.op = ChainOp::constant, .result = 2, .constant = 3},
             {.op = ChainOp::less, .result = 3, .a = 0, .b = 1},
             {.op = ChainOp::multiply, .result = 2, .a = 0, .b = 2},
             {.op = ChainOp::subtract, .result = 1, .a = 0, .b = 1},
             {.op = ChainOp::where, .result = 0, .a = 3, .b = 2, .c = 1},
             {.op = ChainOp::store, .a = 0, .slot = 2}};
  p.registers = 4;
  return p;
}

class Chain : public ::testing::Test {
 protected:
  void SetUp() override { before_ = pool::active_isa(); }
  void TearDown() override { pool::set_active_isa(before_); }
  std::mt19937 random_{7};
  float random_small() { return static_cast<float>(static_cast<int>(random_() % 9) - 4); }
  void fill(void* data, DType dtype, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) write_element(data, dtype, i, random_small());
  }

 private:
  pool::Isa before_ = pool::Isa::plain;
};

TEST_F(Chain, all_sizes_alignments_and_dtypes_access_only_their_bytes) {
  const DType types[] = {DType::f32, DType::bf16, DType::f16};
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    for (std::int64_t n = 0; n <= 67; ++n)
      for (const auto side : {GuardedBuffer::before, GuardedBuffer::after}) {
        const std::size_t shift = random_() % 64;
        const DType in = types[random_() % 3], other = types[random_() % 3], out = types[random_() % 3];
        const ChainProgram p = sample_program(n, in, other, out);
        const auto bytes = [n](DType d) {
          return static_cast<std::size_t>(n) * static_cast<std::size_t>(dtype_bits(d) / 8);
        };
        const GuardedBuffer x(bytes(in), side, shift), r(bytes(other), side, 63 - shift),
            y(bytes(out), side, shift / 2), expected(bytes(out), side);
        fill(x.data(), in, n);
        fill(r.data(), other, n);
        void* const tensors[] = {x.data(), r.data(), y.data()};
        void* const references[] = {x.data(), r.data(), expected.data()};
        run_chain_program(p, tensors, 1);
        run_reference(p, references);
        ASSERT_EQ(std::memcmp(y.data(), expected.data(), bytes(out)), 0) << n << " on " << pool::isa_name(isa);
        ASSERT_TRUE(x.is_surrounding_intact() && r.is_surrounding_intact() && y.is_surrounding_intact()) << n;
      }
  }
}

TEST_F(Chain, full_groups_of_one_dtype_keep_the_element_order) {
  for (const pool::Isa isa : pool::available_isas())
    for (const DType type : {DType::bf16, DType::f16, DType::f32})
      for (const std::int64_t n : {63, 64, 128, 129, 200, 1000, 9001}) {
        ASSERT_TRUE(pool::set_active_isa(isa));
        const ChainProgram p = sample_program(n, type, type, type);
        const std::size_t bytes = n * dtype_bits(type) / 8;
        std::vector<char> x(bytes), r(bytes), y(bytes), expected(bytes);
        fill(x.data(), type, n);
        fill(r.data(), type, n);
        void* const tensors[] = {x.data(), r.data(), y.data()};
        void* const references[] = {x.data(), r.data(), expected.data()};
        run_chain_program(p, tensors, 1);
        run_reference(p, references);
        ASSERT_EQ(y, expected) << n << " of " << dtype_name(type) << " on " << pool::isa_name(isa);
      }
}

// Tests the cache of lowered programs with programs that differ only in the sign of a zero, and with more programs than
// the cache holds.
TEST_F(Chain, alternating_programs_use_their_own_code) {
  const auto program = [](std::int64_t n, float c) {
    ChainProgram p;
    p.extents = {n};
    p.tensors = {{DType::f32, {1}}, {DType::f32, {1}}};
    p.steps = {{.op = ChainOp::load, .result = 0, .slot = 0},
               {.op = ChainOp::constant, .result = 1, .constant = c},
               {.op = ChainOp::negate, .result = 0, .a = 0, .repeat = 2},
               {.op = ChainOp::divide, .result = 0, .a = 0, .b = 1},
               {.op = ChainOp::store, .a = 0, .slot = 1}};
    p.registers = 2;
    return p;
  };
  const std::vector<float> x(100, 2);
  for (int turn = 0; turn < 3; ++turn)
    for (const std::int64_t n : {0, 70, 100})
      for (const float c : {0.0f, -0.0f, 2.0f, 4.0f}) {
        std::vector<float> y(100, -1), expected = y;
        void* const tensors[] = {const_cast<float*>(x.data()), y.data()};
        run_chain_program(program(n, c), tensors, 1);
        std::fill_n(expected.begin(), n, 2 / c);
        ASSERT_EQ(y, expected) << n << ", " << c;
      }
}

TEST_F(Chain, random_programs_over_random_layouts_equal_the_reference) {
  constexpr ChainOp ops[] = {ChainOp::add,  ChainOp::subtract,   ChainOp::multiply, ChainOp::divide, ChainOp::negate,
                             ChainOp::abs,  ChainOp::relu,       ChainOp::sqrt,     ChainOp::max,    ChainOp::min,
                             ChainOp::less, ChainOp::less_equal, ChainOp::equal,    ChainOp::where};
  const DType types[] = {DType::f32, DType::f32, DType::bf16, DType::f16};
  for (int round = 0; round < 1500; ++round) {
    ChainProgram p;
    const std::size_t axes = random_() % 5;
    for (std::size_t i = 0; i < axes; ++i)
      p.extents.push_back(static_cast<std::int64_t>(i + 1 == axes ? random_() % 700 : random_() % 6));
    const int inputs = 1 + static_cast<int>(random_() % 3), outputs = 1 + static_cast<int>(random_() % 2);
    std::vector<TensorLayout> layouts;
    for (int t = 0; t < inputs + outputs; ++t) {
      layouts.push_back(random_layout(random_, p.extents, types[random_() % 4], t >= inputs));
      p.tensors.push_back(layouts.back().tensor);
    }
    p.registers = 4;
    for (int t = 0; t < 4; ++t)
      p.steps.push_back(t < inputs ? ChainStep{.op = ChainOp::load, .result = t, .slot = t}
                                   : ChainStep{.op = ChainOp::constant, .result = t, .constant = random_small()});
    const auto reg = [&] { return static_cast<int>(random_() % 4); };
    for (std::size_t i = 0, count = random_() % 9; i < count; ++i)
      p.steps.push_back({.op = ops[random_() % 12], .result = reg(), .a = reg(), .b = reg(), .c = reg()});
    for (int t = 0; t < outputs; ++t) p.steps.push_back({.op = ChainOp::store, .a = reg(), .slot = inputs + t});
    ASSERT_FALSE(unsupported_reason(p));

    std::vector<std::vector<char>> memory;
    std::vector<void*> tensors;
    for (const TensorLayout& l : layouts) {
      const std::int64_t size = dtype_bits(l.tensor.dtype) / 8;
      memory.emplace_back(static_cast<std::size_t>(l.span * size), '\x7b');
      tensors.push_back(memory.back().data() + l.first * size);
    }
    for (std::size_t t = 0; t < static_cast<std::size_t>(inputs); ++t)
      fill(memory[t].data(), layouts[t].tensor.dtype, layouts[t].span);
    std::vector<std::vector<char>> fresh = memory;
    run_reference(p, tensors);
    const std::vector<std::vector<char>> expected = memory;
    for (const pool::Isa isa : pool::available_isas()) {
      ASSERT_TRUE(pool::set_active_isa(isa));
      for (std::size_t t = inputs; t < memory.size(); ++t)
        std::copy(fresh[t].begin(), fresh[t].end(), memory[t].begin());
      run_chain_program(p, tensors, 1 + round % 3);
      for (std::size_t t = 0; t < memory.size(); ++t) {
        const DType dtype = layouts[t].tensor.dtype;
        for (std::int64_t i = 0; i < layouts[t].span; ++i)
          ASSERT_TRUE(
              is_same_value(read_element(memory[t].data(), dtype, i), read_element(expected[t].data(), dtype, i)))
              << "round " << round << ", tensor " << t << ", element " << i << " on " << pool::isa_name(isa);
      }
    }
  }
}

TEST_F(Chain, outputs_larger_than_the_cache_have_the_same_values) {
  const std::int64_t n = pool::cache_sizes().l3 / 8 + 12345;
  for (const DType out : {DType::f32, DType::bf16}) {
    const ChainProgram p = sample_program(n, DType::f32, DType::bf16, out);
    std::vector<char> x(4 * n), r(static_cast<std::size_t>(2 * n)), y(static_cast<std::size_t>(4 * n + 64));
    for (std::int64_t i = 0; i < n; ++i) {
      write_element(x.data(), DType::f32, i, static_cast<float>(i % 11));
      write_element(r.data(), DType::bf16, i, static_cast<float>(i % 7));
    }
    for (const pool::Isa isa : pool::available_isas())
      for (const int shift : {0, 12}) {
        ASSERT_TRUE(pool::set_active_isa(isa));
        std::fill(y.begin(), y.end(), '\x7b');
        void* const tensors[] = {x.data(), r.data(), y.data() + shift};
        run_chain_program(p, tensors, 2);
        for (std::int64_t i = 0; i < n; ++i) {
          const auto a = static_cast<float>(i % 11), b = static_cast<float>(i % 7);
          ASSERT_EQ(read_element(y.data() + shift, out, i), a < b ? a * 3 : a - b)
              << i << " on " << pool::isa_name(isa);
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(shift); ++i) ASSERT_EQ(y[i], '\x7b');
        ASSERT_EQ(y[shift + n * dtype_bits(out) / 8], '\x7b');
      }
  }
}

ChainProgram transcendental_program(std::int64_t n) {
  ChainProgram p;
  p.extents = {n};
  p.tensors = {{DType::f32, {1}}, {DType::f32, {1}}};
  p.steps = {{.op = ChainOp::load, .result = 0, .slot = 0},
             {.op = ChainOp::cos, .result = 0, .a = 0, .repeat = 7},
             {.op = ChainOp::gelu, .result = 1, .a = 0},
             {.op = ChainOp::exp, .result = 0, .a = 0},
             {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
             {.op = ChainOp::store, .a = 0, .slot = 1}};
  p.registers = 2;
  return p;
}

TEST_F(Chain, ten_runs_and_one_to_four_threads_give_the_same_bits) {
  const std::int64_t n = 100003;
  std::vector<float> x(n), first(x.size()), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.001f - 50;
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    void* const once[] = {x.data(), first.data()};
    run_chain_program(transcendental_program(n), once, 1);
    for (int run = 0; run < 10; ++run) {
      std::fill(y.begin(), y.end(), -1.0f);
      void* const tensors[] = {x.data(), y.data()};
      run_chain_program(transcendental_program(n), tensors, 1 + run % 4);
      ASSERT_EQ(std::memcmp(y.data(), first.data(), x.size() * sizeof(float)), 0) << run;
    }
  }
}

TEST_F(Chain, a_repeated_function_equals_repeated_steps) {
  const std::int64_t n = 1000;
  ChainProgram often = transcendental_program(n), unrolled = often;
  unrolled.steps.erase(unrolled.steps.begin() + 1);
  for (int i = 0; i < 7; ++i)
    unrolled.steps.insert(unrolled.steps.begin() + 1, {.op = ChainOp::cos, .result = 0, .a = 0});
  std::vector<float> x(n), a(x.size()), b(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.01f;
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    void* const to_a[] = {x.data(), a.data()};
    void* const to_b[] = {x.data(), b.data()};
    run_chain_program(often, to_a, 1);
    run_chain_program(unrolled, to_b, 1);
    EXPECT_EQ(a, b);
  }
}

// The stack does not grow with the number of steps.
TEST_F(Chain, runs_a_hundred_thousand_steps) {
  const std::int64_t n = 100;
  ChainProgram p = sample_program(n);
  p.steps = {{.op = ChainOp::load, .result = 0, .slot = 0}, {.op = ChainOp::load, .result = 1, .slot = 1}};
  p.steps.insert(p.steps.end(), 100000, {.op = ChainOp::add, .result = 0, .a = 0, .b = 1});
  p.steps.push_back({.op = ChainOp::store, .a = 0, .slot = 2});
  std::vector<float> x(n, 3), one(x.size(), 1), out(x.size());
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    void* const tensors[] = {x.data(), one.data(), out.data()};
    run_chain_program(p, tensors, 1);
    EXPECT_EQ(out, std::vector<float>(x.size(), 100003));
  }
}

TEST_F(Chain, nan_affects_only_its_element) {
  const std::int64_t n = 1003;
  std::vector<float> x(n, 0.25f), y(x.size());
  x[517] = std::numeric_limits<float>::quiet_NaN();
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    void* const tensors[] = {x.data(), y.data()};
    run_chain_program(transcendental_program(n), tensors, 2);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i == 517) << i;
  }
}

TEST_F(Chain, an_input_may_be_broadcast_from_one_number) {
  ChainProgram p = sample_program(1000);
  p.tensors[1].strides = {0};
  std::vector<float> x(1000, 2), y(1000);
  float r = 5;
  for (const pool::Isa isa : pool::available_isas()) {
    ASSERT_TRUE(pool::set_active_isa(isa));
    void* const tensors[] = {x.data(), &r, y.data()};
    run_chain_program(p, tensors, 1);
    EXPECT_EQ(y, std::vector<float>(1000, 6));
  }
}

std::string reason_or_none(const ChainProgram& p) {
  const Reason reason = unsupported_reason(p);
  return reason ? reason.text() : "none";
}

TEST(ChainValidation, unsupported_reason_names_the_error) {
  const ChainProgram good = sample_program(4);
  EXPECT_EQ(reason_or_none(good), "none");
  ChainProgram p = good;
  p.extents = {-1};
  EXPECT_EQ(reason_or_none(p), "expected extents of at least 0, found -1");
  p = good;
  p.tensors[1].dtype = DType::f64;
  EXPECT_EQ(reason_or_none(p), "tensor 1 of the chain is f64; chains store f32, bf16 and f16");
  p = good;
  p.tensors[0].strides = {1, 1};
  EXPECT_EQ(reason_or_none(p), "tensor 0 of the chain has 2 strides, expected one for each of the 1 axes");
  p = good;
  p.extents = {std::int64_t{1} << 60};
  EXPECT_EQ(reason_or_none(p), "the chain's index space has more than 2^59 elements");
  p = good;
  p.tensors[0].strides = {std::int64_t{1} << 60};
  EXPECT_EQ(reason_or_none(p), "tensor 0 of the chain reaches beyond 2^59 elements");
  p = good;
  p.tensors[2].strides = {0};
  EXPECT_EQ(
      reason_or_none(p),
      "tensor 2 of the chain is an output whose elements share memory; expected strides that step over each other");
  p = good;
  p.steps[3].b = 3;
  EXPECT_EQ(reason_or_none(p), "step 3 of the chain reads register 3, which no step before it writes");
  p = good;
  p.steps[3].b = 9;
  EXPECT_EQ(reason_or_none(p), "step 3 of the chain reads register 9, which no step before it writes");
  p = good;
  p.steps[3].result = 4;
  EXPECT_EQ(reason_or_none(p), "step 3 of the chain writes register 4; there are 4");
  p = good;
  p.steps[7].slot = 3;
  EXPECT_EQ(reason_or_none(p), "step 7 of the chain names tensor 3; there are 3");
  p = good;
  p.steps[4].repeat = 2;
  EXPECT_EQ(reason_or_none(p), "step 4 of the chain is repeated; only functions of one operand can be");
  p = good;
  p.steps[4].repeat = 0;
  EXPECT_EQ(reason_or_none(p), "step 4 of the chain has repeat 0, expected at least 1");
  p = good;
  p.steps[7].slot = 1;
  EXPECT_EQ(reason_or_none(p), "tensor 1 of the chain is loaded and stored; an output must not overlap an input");
  p = good;
  p.steps.push_back(p.steps[7]);
  EXPECT_EQ(reason_or_none(p), "tensor 2 of the chain is stored twice");
  p = good;
  p.registers = -1;
  EXPECT_EQ(reason_or_none(p), "expected 0 to 2^20 registers, found -1");
}

TEST(ChainValidation, nine_axes_are_supported_only_if_they_merge) {
  ChainProgram p = sample_program(2);
  p.extents.assign(9, 2);
  for (ChainTensor& t : p.tensors) {
    t.strides.clear();
    for (int axis = 8; axis >= 0; --axis) t.strides.push_back(std::int64_t{1} << axis);
  }
  EXPECT_EQ(reason_or_none(p), "none");
  for (std::size_t axis = 0; axis < 9; ++axis) p.tensors[0].strides[axis] = std::int64_t{1} << axis;
  EXPECT_EQ(reason_or_none(p), "the chain has 9 axes that cannot be merged, expected at most 8");
}

}  // namespace
}  // namespace ridge::ops

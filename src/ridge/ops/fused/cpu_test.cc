// Compares fused products with the unfused products and chain: the sums are equal, so every bit must be, including NaN
// and infinities. Also checks the traffic of the kernel definition on the trace target.
#include "ridge/ops/fused/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/fused/cpu.h"
#include "ridge/ops/gated/layer.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/testing/guarded.h"
#include "ridge/ops/product/trace.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using Index = std::int64_t;
using product_testing::GuardedBuffer;

std::size_t byte_count(DType dtype, Index elements) {
  return static_cast<std::size_t>(elements * dtype_bits(dtype) / 8);
}

void write_element(DType dtype, void* data, Index i, float x) {
  const Bf16 brain = to_bf16(x);
  const F16 half = to_f16(x);
  if (dtype == DType::f32) static_cast<float*>(data)[i] = x;
  if (dtype == DType::bf16) static_cast<Bf16*>(data)[i] = brain;
  if (dtype == DType::f16) static_cast<F16*>(data)[i] = half;
}
float read_element(DType dtype, const void* data, Index i) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[i];
  if (dtype == DType::bf16) return to_float(static_cast<const Bf16*>(data)[i]);
  return to_float(static_cast<const F16*>(data)[i]);
}

struct LayerSizes {  // y = (x*up + bu) * gate(x*gate + bg), weights [F, D], or one of them alone
  Index n = 0, f = 0, d = 0;
  DType dtype = DType::f32;
  ChainOp activation = ChainOp::gelu;  // `load` means none
  bool pair = true, biases = true, one_matrix = false, keeps_sums = false;
  Index batch = 1;
};

struct LayerData {  // Data of a layer, with inputs between inaccessible pages
  LayerSizes layer;
  GuardedBuffer x, up, gate, bu, bg;
  explicit LayerData(const LayerSizes& l)
      : layer(l),
        x(byte_count(l.dtype, l.batch * l.n * l.d)),
        up(byte_count(l.dtype, (l.one_matrix ? 2 : 1) * l.f * l.d)),
        gate(byte_count(l.dtype, l.f * l.d)),
        bu(byte_count(l.dtype, l.f)),
        bg(byte_count(l.dtype, l.f)) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (const auto& [data, count] : {std::pair(&x, l.batch * l.n * l.d),
                                      {&up, (l.one_matrix ? 2 : 1) * l.f * l.d},
                                      {&gate, l.f * l.d},
                                      {&bu, l.f},
                                      {&bg, l.f}})
      for (Index i = 0; i < count; ++i) write_element(l.dtype, data->data(), i, normal(random));
  }
  const void* second() const {
    return layer.one_matrix ? up.data() + byte_count(layer.dtype, layer.f * layer.d)
                            : static_cast<const char*>(gate.data());
  }
};

FusedMatmul problem_of(const LayerSizes& l) {
  FusedMatmul p;
  const MatrixLayout weights{l.dtype, 1, l.d, 0};
  p.product = {l.batch, l.n, l.f, l.d, {l.dtype, l.d, 1, l.n * l.d}, weights, {}};
  if (l.pair) p.second = weights;
  ChainProgram& c = p.chain;
  c.extents = {l.batch, l.n, l.f};
  const std::vector<Index> whole{l.n * l.f, l.f, 1}, row{0, 0, 1};
  for (int i = 0; i < p.product_count(); ++i) c.tensors.push_back({DType::f32, whole});
  const auto add = [&](ChainStep step) { c.steps.push_back(step); };
  const auto tensor = [&](DType dtype, const std::vector<Index>& strides) {
    c.tensors.push_back({dtype, strides});
    return static_cast<int>(c.tensors.size()) - 1;
  };
  c.registers = 3;
  for (int i = 0; i < p.product_count(); ++i) {
    add({.op = ChainOp::load, .result = i, .slot = i});
    if (!l.biases) continue;
    add({.op = ChainOp::load, .result = 2, .slot = tensor(l.dtype, row)});
    add({.op = ChainOp::add, .result = i, .a = i, .b = 2});
  }
  if (l.keeps_sums) add({.op = ChainOp::store, .a = 0, .slot = tensor(DType::bf16, whole)});
  const int last = p.product_count() - 1;
  if (l.activation != ChainOp::load) add({.op = l.activation, .result = last, .a = last});
  if (l.pair) add({.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1});
  add({.op = ChainOp::store, .a = 0, .slot = tensor(l.dtype, whole)});
  return p;
}

// Returns the data of the chain's tensors after the sums.
std::vector<void*> chain_data(const LayerData& m, GuardedBuffer& kept, GuardedBuffer& y) {
  std::vector<void*> data;
  if (m.layer.biases) data.push_back(m.bu.data());
  if (m.layer.biases && m.layer.pair) data.push_back(m.bg.data());
  if (m.layer.keeps_sums) data.push_back(kept.data());
  data.push_back(y.data());
  return data;
}

std::string compare_with_unfused(const LayerData& m, int threads) {
  const LayerSizes& l = m.layer;
  const FusedMatmul p = problem_of(l);
  if (const auto why = unsupported_reason(p)) return why.text();
  const Index all = l.batch * l.n * l.f;
  GuardedBuffer y(byte_count(l.dtype, all)), kept(byte_count(DType::bf16, all)), expected(y.size()),
      expected_kept(kept.size());
  std::vector<void*> data = chain_data(m, kept, y);
  for (const GuardedBuffer* input : {&m.x, &m.up, &m.gate, &m.bu, &m.bg}) input->make_read_only();
  matmul(p, m.x.data(), m.up.data(), l.pair ? m.second() : nullptr, data, threads);
  std::vector<float> u(all), g(u);
  MatmulProblem plain = p.product;
  plain.d = {DType::f32, l.f, 1, l.n * l.f};
  matmul(plain, m.x.data(), m.up.data(), u.data(), 1);
  if (l.pair) matmul(plain, m.x.data(), m.second(), g.data(), 1);
  std::vector<void*> separate{u.data()};
  if (l.pair) separate.push_back(g.data());
  const std::vector<void*> more = chain_data(m, expected_kept, expected);
  separate.insert(separate.end(), more.begin(), more.end());
  run_chain_program(p.chain, separate, 1);
  if (!y.are_edges_intact() || !kept.are_edges_intact()) return "wrote beyond its output";
  for (Index i = 0; i < all; ++i) {
    const float a = read_element(l.dtype, y.data(), i), b = read_element(l.dtype, expected.data(), i);
    if (std::memcmp(&a, &b, sizeof a) != 0 && !(std::isnan(a) && std::isnan(b)))
      return "y[" + std::to_string(i) + "] is " + std::to_string(a) + ", expected " + std::to_string(b);
  }
  if (l.keeps_sums && std::memcmp(kept.data(), expected_kept.data(), kept.size()) != 0) return "kept sums differ";
  return "";
}

class FusedOnEveryIsa : public pool::IsaTest {};
INSTANTIATE_TEST_SUITE_P(Fused, FusedOnEveryIsa, ::testing::ValuesIn(pool::available_isas()),
                         [](const auto& param) { return std::string(pool::isa_name(param.param)); });

constexpr std::array<std::array<Index, 3>, 8> sizes{
    {{1, 1, 1}, {1, 300, 129}, {7, 33, 5}, {113, 65, 70}, {230, 517, 401}, {20, 31, 1300}, {3, 40, 50}, {12, 40, 0}}};

TEST_P(FusedOnEveryIsa, EqualsUnfusedBitForBit) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const auto& [n, f, d] : sizes)
      for (const ChainOp activation : {ChainOp::gelu, ChainOp::gelu_tanh, ChainOp::silu, ChainOp::load}) {
        const bool odd = activation == ChainOp::gelu_tanh;
        const LayerSizes l{.n = n, .f = f, .d = d, .dtype = dtype, .activation = activation, .biases = !odd};
        EXPECT_EQ(compare_with_unfused(LayerData(l), odd ? 1 : 3), "")
            << dtype_name(dtype) << " " << n << " " << f << " " << d;
      }
}

TEST_P(FusedOnEveryIsa, SupportsBothWeightsInOneMatrix) {
  for (const auto& [n, f, d] : sizes)
    EXPECT_EQ(compare_with_unfused(LayerData({.n = n, .f = f, .d = d, .dtype = DType::bf16, .one_matrix = true}), 2),
              "");
}

TEST_P(FusedOnEveryIsa, ChainCanStoreSeveralResults) {
  for (const auto& [n, f, d] : sizes)
    for (const Index batch : {1, 3})
      EXPECT_EQ(compare_with_unfused(
                    LayerData({.n = n, .f = f, .d = d, .pair = false, .keeps_sums = true, .batch = batch}), 2),
                "")
          << n << " " << f << " " << d;
}

TEST_P(FusedOnEveryIsa, PropagatesNanAndInfinity) {
  LayerData m({.n = 9, .f = 70, .d = 33, .dtype = DType::bf16});
  write_element(DType::bf16, m.x.data(), 2 * 33 + 5, NAN);
  write_element(DType::bf16, m.x.data(), 4 * 33 + 1, INFINITY);
  write_element(DType::bf16, m.bg.data(), 7, -INFINITY);  // gelu(-inf) = 0
  write_element(DType::bf16, m.bu.data(), 8, INFINITY);
  EXPECT_EQ(compare_with_unfused(m, 2), "");
  const FusedMatmul p = problem_of(m.layer);
  GuardedBuffer y(byte_count(DType::bf16, 9 * 70)), unused(1);
  std::vector<void*> data = chain_data(m, unused, y);
  matmul(p, m.x.data(), m.up.data(), m.second(), data, 1);
  for (Index i = 0; i < 9; ++i)
    for (Index j = 0; j < 70; ++j) {
      const float got = read_element(DType::bf16, y.data(), i * 70 + j);
      if (i == 2) {
        EXPECT_TRUE(std::isnan(got)) << j;
      }
      if (i != 2 && i != 4 && j != 8) {
        EXPECT_TRUE(std::isfinite(got)) << i << " " << j;
      }
      if (i != 2 && i != 4 && j == 7) {
        EXPECT_EQ(got, 0) << i;
      }
      if (i != 2 && i != 4 && j == 8) {
        EXPECT_TRUE(std::isinf(got)) << i;
      }
    }
}

// Compares gated_layer(), with one or two weight matrices, with and without biases, with the chain built by hand.
TEST_P(FusedOnEveryIsa, GatedLayerEqualsItsChain) {
  for (const bool one_matrix : {true, false})
    for (const bool biases : {true, false}) {
      const LayerData m({.n = 37, .f = 70, .d = 33, .dtype = DType::f16, .biases = biases, .one_matrix = one_matrix});
      GuardedBuffer y(byte_count(DType::f16, 37 * 70)), expected(y.size()), b(byte_count(DType::f16, 2 * 70));
      std::memcpy(b.data(), m.bu.data(), m.bu.size());
      std::memcpy(b.data() + m.bu.size(), m.bg.data(), m.bg.size());
      GatedLayer layer{.n = 37, .f = 70, .d = 33, .dtype = DType::f16, .x = m.x.data(), .y = y.data()};
      if (one_matrix)
        layer = with_joined_weights(layer, m.up.data(), biases ? b.data() : nullptr);
      else {
        layer.up = m.up.data();
        layer.gate = m.gate.data();
        layer.bu = biases ? m.bu.data() : nullptr;
        layer.bg = biases ? m.bg.data() : nullptr;
      }
      ASSERT_FALSE(unsupported_reason(layer));
      gated_layer(layer, 2);
      GuardedBuffer unused(1);
      const std::vector<void*> data = chain_data(m, unused, expected);
      matmul(problem_of(m.layer), m.x.data(), m.up.data(), m.second(), data, 1);
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size()), 0) << one_matrix << biases;
      EXPECT_TRUE(y.are_edges_intact());
    }
  EXPECT_EQ(unsupported_reason(GatedLayer{.n = -1}).text(), "expected sizes of at least 0, found n -1, f 0, d 0");
}

TEST(FusedMatmul, ReportsUnsupportedProblems) {
  FusedMatmul p = problem_of({.n = 2, .f = 3, .d = 4});
  EXPECT_FALSE(unsupported_reason(p));
  FusedMatmul other = p;
  other.chain.extents = {1, 2, 4};
  EXPECT_EQ(unsupported_reason(other).text(), "chain: expected the extents of the product, batch, m and n");
  other = p;
  other.second->dtype = DType::int8;
  EXPECT_EQ(unsupported_reason(other).text(), "expected two weights of one dtype, found f32 and int8");
  other = problem_of({.n = 2, .f = 3, .d = 32});
  other.product.b = {DType::mxfp4, 1, 32};
  other.second = other.product.b;
  EXPECT_EQ(unsupported_reason(other).text(),
            "expected no block-scaled operand of a product with a fused chain, found f32 * mxfp4");
  other = p;
  other.chain.tensors[1].dtype = DType::bf16;
  EXPECT_EQ(unsupported_reason(other).text(), "chain: expected sums in f32");
  other = p;
  other.chain.steps.back().slot = 0;
  EXPECT_EQ(unsupported_reason(other).text(), "chain: expected sums that are only loaded");
  other = p;
  other.product.a.dtype = other.product.b.dtype = other.second->dtype = DType::int8;
  EXPECT_EQ(unsupported_reason(other).text(),
            "expected sums in f32 for a product with a fused chain, found int8 * int8");
}

// Each tensor is moved once, and the sums are not moved.
TEST(FusedTrace, MovesEachTensorOnceAndNoSums) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [n, f, d] : {std::array<Index, 3>{200, 517, 401}, {300, 600, 1300}, {500, 1000, 100}})
      for (const bool pair : {true, false}) {
        const FusedTraffic t = count_cpu_traffic(problem_of({.n = n, .f = f, .d = d, .dtype = dtype, .pair = pair}), 2);
        const Index e = dtype_bits(dtype) / 8;
        EXPECT_EQ(t.a.global_bytes, e * n * d);
        EXPECT_EQ(t.b.global_bytes, e * f * d);
        EXPECT_EQ(t.second.global_bytes, pair ? e * f * d : 0);
        ASSERT_EQ(t.chain.size(), pair ? 3u : 2u);
        EXPECT_EQ(t.chain[0].global_bytes, e * f);
        EXPECT_GE(t.chain[0].requested_bytes, e * f);
        EXPECT_EQ(t.chain.back().global_bytes, e * n * f);
        EXPECT_EQ(t.flops, (pair ? 4 : 2) * n * f * d);
        EXPECT_EQ(t.global_bytes(), e * (n * d + (pair ? 2 : 1) * (f * d + f) + n * f));
      }
}

}  // namespace
}  // namespace ridge::ops

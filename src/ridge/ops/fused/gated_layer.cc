#include "ridge/ops/gated/layer.h"

#include <vector>

#include "ridge/ops/fused/cpu.h"
#include "ridge/ops/product/cpu.h"

namespace ridge::ops {
namespace {

std::optional<ChainOp> activation_function(tile::EpilogueActivation activation) {
  switch (activation) {
    case tile::EpilogueActivation::none: return std::nullopt;
    case tile::EpilogueActivation::relu: return ChainOp::relu;
    case tile::EpilogueActivation::gelu: return ChainOp::gelu;
    case tile::EpilogueActivation::gelu_tanh: return ChainOp::gelu_tanh;
    case tile::EpilogueActivation::silu: return ChainOp::silu;
  }
  return std::nullopt;
}

FusedMatmul make_problem(const GatedLayer& l) {
  const MatrixLayout weights{l.dtype, 1, l.d, 0};
  const std::vector<std::int64_t> row_major{l.n * l.f, l.f, 1}, row{0, 0, 1};
  FusedMatmul out{{1, l.n, l.f, l.d, {l.dtype, l.d, 1, 0}, weights, {DType::f32, l.f, 1, 0}}, weights, {}};
  ChainProgram& chain = out.chain;
  chain = {{1, l.n, l.f}, {{DType::f32, row_major}, {DType::f32, row_major}}, {}, 3};
  for (int i = 0; i < 2; ++i) {
    chain.steps.push_back({.op = ChainOp::load, .result = i, .slot = i});
    if ((i == 0 ? l.bu : l.bg) == nullptr) continue;
    chain.steps.push_back({.op = ChainOp::load, .result = 2, .slot = static_cast<int>(chain.tensors.size())});
    chain.steps.push_back({.op = ChainOp::add, .result = i, .a = i, .b = 2});
    chain.tensors.push_back({l.dtype, row});
  }
  if (const auto function = activation_function(l.activation))
    chain.steps.push_back({.op = *function, .result = 1, .a = 1});
  chain.steps.push_back({.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1});
  chain.steps.push_back({.op = ChainOp::store, .a = 0, .slot = static_cast<int>(chain.tensors.size())});
  chain.tensors.push_back({l.dtype, row_major});
  return out;
}

const void* advance_elements(const void* data, std::int64_t elements, DType dtype) {
  return data == nullptr ? nullptr : static_cast<const char*>(data) + elements * (dtype_bits(dtype) / 8);
}

}  // namespace

GatedLayer with_joined_weights(GatedLayer l, const void* weights, const void* biases) {
  l.up = weights;
  l.gate = advance_elements(weights, l.f * l.d, l.dtype);
  l.bu = biases;
  l.bg = advance_elements(biases, l.f, l.dtype);
  return l;
}

Reason unsupported_reason(const GatedLayer& l) {
  if (l.n < 0 || l.f < 0 || l.d < 0)
    return "expected sizes of at least 0, found n " + std::to_string(l.n) + ", f " + std::to_string(l.f) + ", d " +
           std::to_string(l.d);
  return unsupported_reason(make_problem(l));
}

void gated_layer(const GatedLayer& l, int threads) {
  std::vector<void*> data;
  for (const void* bias : {l.bu, l.bg})
    if (bias != nullptr) data.push_back(const_cast<void*>(bias));  // Only read
  data.push_back(l.y);
  matmul(make_problem(l), l.x, l.up, l.gate, data, threads);
}

}  // namespace ridge::ops

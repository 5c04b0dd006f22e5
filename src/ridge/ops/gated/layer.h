// Linear and GEGLU on this CPU, in one kernel: y = (x*up^T + bu) * activation(x*gate^T + bg), with nothing but y
// written. As a program: examples/geglu.ridge.
//
//   GatedLayer layer{.n = 2048, .f = 4096, .d = 1024, .x = x, .y = y};
//   gated_layer(with_one_matrix(layer, w, b));       // w[2*f, d] and b[2*f] as PyTorch's linear and chunk have them
#pragma once

#include <optional>
#include <string>

#include "ridge/ops/fused/problem.h"
#include "ridge/tile/epilogue.h"

namespace ridge::ops {

struct GatedLayer {
  std::int64_t n = 0, f = 0, d = 0;
  DType dtype = DType::bf16;  // of everything: f32, bf16 or f16; sums, biases' addition and the gate are f32
  tile::Activation activation = tile::Activation::gelu;
  const void* x = nullptr;                    // [n, d]
  const void *up = nullptr, *gate = nullptr;  // [f, d] each
  const void *bu = nullptr, *bg = nullptr;    // [f] each; null: none
  void* y = nullptr;                          // [n, f], must not overlap the others
};
// Weights as one matrix [2*f, d], value half first, and biases as one vector [2*f] or null.
GatedLayer with_one_matrix(GatedLayer layer, const void* weights, const void* biases);

std::optional<std::string> refuse(const GatedLayer& layer);
void gated_layer(const GatedLayer& layer, int threads = 0);  // must not be refused

}  // namespace ridge::ops

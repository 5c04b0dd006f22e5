// Fused gated layer (GEGLU) on this CPU: y = (x*up^T + bu) * activation(x*gate^T + bg), in one kernel that stores only
// y. examples/geglu.ridge is the same layer as a program.
//
//   GatedLayer layer{.n = 2048, .f = 4096, .d = 1024, .x = x, .y = y};
//   gated_layer(with_joined_weights(layer, w, b));       // w[2*f, d], b[2*f] as in PyTorch's linear and chunk
#pragma once

#include "ridge/base/reason.h"
#include "ridge/ops/fused/problem.h"
#include "ridge/tile/epilogue.h"

namespace ridge::ops {

struct GatedLayer {
  std::int64_t n = 0, f = 0, d = 0;
  DType dtype = DType::bf16;  // Type of all tensors: f32, bf16 or f16; computation is f32
  tile::EpilogueActivation activation = tile::EpilogueActivation::gelu;
  const void* x = nullptr;                    // [n, d]
  const void *up = nullptr, *gate = nullptr;  // [f, d] each
  const void *bu = nullptr, *bg = nullptr;    // [f] each, or null
  void* y = nullptr;                          // [n, f], must not overlap the inputs
};
// Sets the layer's weights to the halves of one matrix [2*f, d], `up` first, and its biases to those of [2*f] or null.
GatedLayer with_joined_weights(GatedLayer layer, const void* weights, const void* biases);

Reason unsupported_reason(const GatedLayer& layer);
void gated_layer(const GatedLayer& layer, int threads = 0);  // Requires a supported layer

}  // namespace ridge::ops

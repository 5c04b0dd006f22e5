// Backward pass of the gate: from dy and the pre-activations h = [u, g] computes dh = [dy * act(g), dy * u * act'(g)]
// and its column sums, which are the biases' gradients, in one pass. The other gradients are products: dx = dh * w and
// dw = dh^T * x. Memory, streams and workspace are as in ops/product/cuda.h.
#pragma once

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops::cuda {

struct GateGradientCall {
  static constexpr std::int64_t rows_per_block = 128;
  std::int64_t m = 0, n = 0;
  DType dtype = DType::bf16;  // Type of all matrices: bf16 or f16; sums are f32
  EpilogueActivation activation = EpilogueActivation::gelu;
  const void* dy = nullptr;                                             // [m, n]
  const void* h = nullptr;                                              // [m, 2*n]
  void* dh = nullptr;                                                   // [m, 2*n]; may overwrite h
  void *dbu = nullptr, *dbg = nullptr;                                  // [n] each; null if not needed
  std::int64_t dy_row_stride = 0, h_row_stride = 0, dh_row_stride = 0;  // Row strides in elements
};

Reason unsupported_reason(const GateGradientCall& call);
std::size_t needed_workspace_bytes(const GateGradientCall& call);
Status launch(const GateGradientCall& call, const device::DeviceWorkspace& workspace, CUstream_st* stream);

}  // namespace ridge::ops::cuda

// A gated layer y = (x*up^T + bu) * act(x*gate^T + bg) on a CUDA device in one kernel, queued on the caller's stream.
// The kernel stores y, or h, which backward needs, or both. Memory, streams and workspace are as in ops/product/cuda.h.
//
// If y has the type of x and a layout that the copy engine can write, gelu uses 2^x and a polynomial: its relative
// error is at most 2^-12.5 (1 + g*g/2) for |g| <= 5.5, its absolute error 1e-7 for g < -5.5. Otherwise the error of
// gelu is at most 2^-20 |g|. gelu(-inf) is NaN.
#pragma once

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/ops/gated/layer.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/tile/roles.h"

namespace ridge::ops::cuda {

struct GatedCall {
  ProductSize size;
  DType dtype = DType::bf16;  // Type of x, up, gate and h: bf16, f16 or f32
  DType out = DType::bf16;    // Type of y: bf16, f16 or f32
  DType bias = DType::bf16;   // Type of bu and bg: bf16, f16 or f32
  EpilogueActivation activation = EpilogueActivation::gelu;
  const void* x = nullptr;                    // [m, k]
  const void *up = nullptr, *gate = nullptr;  // [n, k] each
  tile::Major weights = tile::Major::k;       // If mn, up and gate are [k, n]
  const void *bu = nullptr, *bg = nullptr;    // [n] each, or null
  void* y = nullptr;                          // [m, n]; null if only h is needed
  void* h = nullptr;                          // [m, 2*n]: x*up^T + bu, then x*gate^T + bg; null if not needed
  std::int64_t x_row_stride = 0, weight_line_stride = 0, y_row_stride = 0, h_row_stride = 0;  // Row strides in elements
};
// Returns the call of a layer with contiguous rows.
GatedCall make_gated_call(const GatedLayer& layer);

struct GatedPlan {
  enum class Path { nothing, tiles, plain } path = Path::plain;
  int config = -1;  // Index in `sm90_gated_kernel_configs`
  bool copy_x = false, copy_up = false, copy_gate = false;
  int splits = 1, raster_rows = 8, blocks = 0;
  std::int64_t tiles = 0;
  std::size_t workspace_bytes = 0;
  double predicted_s = 0;
  bool operator==(const GatedPlan&) const = default;
};

Reason unsupported_reason(const GatedCall& call);
// Returns the fastest plan. The call must be supported.
GatedPlan choose_plan(const GatedCall& call, std::size_t workspace_bytes, const DeviceNumbers& device);
std::optional<GatedPlan> make_plan(const GatedCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                   int config, int splits);
Status launch(const GatedCall& call, const GatedPlan& plan, const device::DeviceWorkspace& workspace,
              CUstream_st* stream);

}  // namespace ridge::ops::cuda

// A gated layer on a CUDA device in one kernel, queued on the caller's stream: y = (x*up^T + bu) * act(x*gate^T + bg),
// and nothing but y is written, unless the caller also, or only, wants what backward needs (`h`). Memory, streams and
// workspace are as in matmul_cuda.h.
//
// Where y has the type of x and lies so that the copy engine can write it, gelu comes from 2^x and a polynomial: within
// 2^-12.5 (1 + g*g/2) of itself for |g| <= 5.5, within 1e-7 below; elsewhere within 2^-20 |g|. gelu(-inf) is NaN.
#pragma once

#include "ridge/ops/gated/layer.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/tile/roles.h"

namespace ridge::ops::cuda {

struct GatedCall {
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::bf16;  // of x, up, gate and h: bf16, f16 or f32
  DType out = DType::bf16;    // of y: bf16, f16 or f32
  DType bias = DType::bf16;   // of bu and bg: bf16, f16 or f32
  Activation activation = Activation::gelu;
  const void* x = nullptr;                    // [m, k]
  const void *up = nullptr, *gate = nullptr;  // [n, k] each
  tile::Major weights = tile::Major::k;       // mn: they are [k, n] each
  const void *bu = nullptr, *bg = nullptr;    // [n] each; null: none
  void* y = nullptr;                          // [m, n]; null: only h is wanted
  void* h = nullptr;                          // [m, 2*n]: x*up^T + bu beside x*gate^T + bg; null: not wanted
  std::int64_t x_line = 0, weight_line = 0, y_line = 0, h_line = 0;  // from row to row, in elements
};
// As ops/gated/layer.h has it, rows one behind the other.
GatedCall gated_call(const GatedLayer& layer);

struct GatedPlan {
  enum class Path { nothing, tiles, plain } path = Path::plain;
  int config = -1;  // of sm90_gated_menu
  bool copy_x = false, copy_up = false, copy_gate = false;
  int splits = 1, raster_rows = 8, blocks = 0;
  std::int64_t tiles = 0;
  std::size_t workspace_bytes = 0;
  double predicted_s = 0;
  bool operator==(const GatedPlan&) const = default;
};

std::optional<std::string> refuse(const GatedCall& call);
GatedPlan choose(const GatedCall& call, std::size_t workspace_bytes,
                 const DeviceNumbers& device);  // must not be refused
std::optional<GatedPlan> planned(const GatedCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                 int config, int splits);
std::optional<std::string> launch(const GatedCall& call, const GatedPlan& plan, const Workspace& workspace,
                                  CUstream_st* stream);

}  // namespace ridge::ops::cuda

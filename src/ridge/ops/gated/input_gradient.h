// dx = du*up + dg*gate, or as much added to dx: two products that share their sums, in one kernel whose k runs along
// the first pair of operands and then along the second. What it adds to, the kernel never reads: the copy engine adds
// each rounded tile in the L2, one block a tile, so the bits are the same every time. Internal to the CUDA product: a
// gated layer's backward (gated_backward.h) is who asks, and has plain products for operands that this kernel does not
// take.
#pragma once

#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops {

inline constexpr std::array input_gradient_menu = {
    sm90_configs::with(sm90_configs::ping(192, 5, 1), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::ping(128, 6), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::both(128, 256, 4), sm90_configs::k, sm90_configs::mn),
};

namespace cuda {

struct InputGradient {
  std::int64_t m = 0, n = 0, k = 0;                        // rows and columns of dx, hidden columns
  DType dtype = DType::bf16;                               // of all: bf16 or f16; sums are f32
  const void *du = nullptr, *dg = nullptr;                 // [m, k] each
  const void *up = nullptr, *gate = nullptr;               // [k, n] each
  void* dx = nullptr;                                      // [m, n]
  std::int64_t dh_line = 0, weight_line = 0, dx_line = 0;  // from row to row, in elements
  bool add = false;                                        // to what dx holds
};

struct InputGradientPlan {
  int config = -1;  // of input_gradient_menu
  int blocks = 0;
  double predicted_s = 0;
  bool operator==(const InputGradientPlan&) const = default;
};

// None: nothing to do, or operands that the copy engine cannot read or write where they lie.
std::optional<InputGradientPlan> choose(const InputGradient& call, const DeviceNumbers& device);
std::optional<std::string> launch(const InputGradient& call, const InputGradientPlan& plan, CUstream_st* stream);

}  // namespace cuda
}  // namespace ridge::ops

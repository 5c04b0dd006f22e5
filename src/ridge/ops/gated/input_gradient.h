// Computes dx = du*up + dg*gate, or dx += du*up + dg*gate, in one kernel: the k loop runs over the first pair of
// operands and then over the second, with the same accumulators. The kernel does not read dx: the copy engine adds each
// rounded tile in the L2. One block computes a tile, so results are deterministic. Internal to ops/gated: the backward
// pass uses this kernel, or two products if the kernel does not support the operands.
#pragma once

#include "ridge/base/result.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops {

inline constexpr std::array input_gradient_kernel_configs = {
    sm90_configs::with_majors(sm90_configs::pingpong_tile(192, 5, 1), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::pingpong_tile(128, 6), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::two_consumers(128, 256, 4), sm90_configs::k, sm90_configs::mn),
};

namespace cuda {

struct InputGradient {
  ProductSize size;                           // Rows and columns of dx, hidden columns
  DType dtype = DType::bf16;                  // Type of all matrices: bf16 or f16; sums are f32
  const void *du = nullptr, *dg = nullptr;    // [m, k] each
  const void *up = nullptr, *gate = nullptr;  // [k, n] each
  void* dx = nullptr;                         // [m, n]
  std::int64_t dh_row_stride = 0, weight_line_stride = 0, dx_row_stride = 0;  // Row strides in elements
  bool add = false;                                                           // Adds to dx instead of overwriting it
};

struct InputGradientPlan {
  int config = -1;  // Index in `input_gradient_kernel_configs`
  int blocks = 0;
  double predicted_s = 0;
  bool operator==(const InputGradientPlan&) const = default;
};

// Returns the fastest plan; nullopt if a size is 0 or too large, or if the copy engine does not support a layout.
std::optional<InputGradientPlan> choose_plan(const InputGradient& call, const DeviceNumbers& device);
Status launch(const InputGradient& call, const InputGradientPlan& plan, CUstream_st* stream);

}  // namespace cuda
}  // namespace ridge::ops

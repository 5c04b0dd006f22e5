// Backward pass of a gated layer y = (x*up^T + bu) * act(x*gate^T + bg) on a CUDA device: computes from dy the
// gradients of x, of both weights and of both biases. Memory, streams and workspace are as in ops/product/cuda.h. There
// are two modes:
//
//   keeping h       The forward pass kept the pre-activations h = [u, g] (ops/gated/cuda.h). One pass computes dh, in
//                   place of h or in separate memory, and the biases' gradients; then dx = dh*w and dw = dh^T*x.
//                   Needs 4*m*n bytes besides inputs and outputs, 3 * 4*m*n*k FLOP including forward.
//   keeping only x  h is recomputed, c hidden columns per chunk: h_c by the layer's own kernel, dh_c in place of h_c,
//                   dw_c = dh_c^T*x, which is then complete, and dx += dh_c*w_c. Needs 4*m*c bytes and a third more
//                   FLOP. (Chunks of rows would have to add to all of dw, which is larger than dx.)
//
// Rounding: dh is rounded to the dtype, sums are f32, and the copy engine accumulates dx in the dtype of dx. With q
// chunks, dx has the error of 1 + (q + 1) / 2 - 1 / q independent roundings (q = 4: 3.3, q = 8: 5.4), but of one
// rounding if h is kept; both modes add about two roundings of dh and h. With 8 chunks, the maximum, the total error
// is 1.6 times that of keeping h. f32 sums of dx would need 4*m*k more bytes, read and written q times.
#pragma once

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/gated/gradient.h"
#include "ridge/ops/gated/input_gradient.h"

namespace ridge::ops::cuda {

struct GatedBackward {
  static constexpr int max_chunks = 8;
  ProductSize size;           // Rows, hidden columns, width
  DType dtype = DType::bf16;  // Type of all matrices: bf16 or f16
  EpilogueActivation activation = EpilogueActivation::gelu;
  const void* x = nullptr;                    // [m, k]
  const void *up = nullptr, *gate = nullptr;  // [n, k] each
  const void *bu = nullptr, *bg = nullptr;    // [n] each, or null; used only to recompute h
  const void* dy = nullptr;                   // [m, n]
  void* h = nullptr;                          // [m, 2*n]: columns of u, then of g; null if h must be recomputed
  void* dh = nullptr;                         // [m, 2*n] with the stride of h; if null, dh overwrites h
  void* dx = nullptr;                         // [m, k]; null if not needed
  void *dup = nullptr, *dgate = nullptr;      // [n, k] each; null if not needed
  void *dbu = nullptr, *dbg = nullptr;        // [n] each; null if not needed
  std::int64_t x_row_stride = 0, weight_line_stride = 0;  // Row strides in elements
  std::int64_t dy_row_stride = 0, h_row_stride = 0;
  std::int64_t dx_row_stride = 0, weight_grad_row_stride = 0;
};
// Returns the backward call of a layer (its y is ignored) with contiguous rows. dw has both weight gradients as one
// matrix, db both bias gradients as one vector.
GatedBackward make_gated_backward_call(const GatedLayer& layer, const void* dy, void* dx, void* dw, void* db);

struct GatedBackwardPlan {
  struct ChunkPlan {  // Plans for one chunk
    std::int64_t columns = 0;
    GatedPlan recompute;
    std::optional<InputGradientPlan> dx;  // If absent, two products compute dx
    std::vector<MatmulPlan> dx_products, dw_products;
    bool operator==(const ChunkPlan&) const = default;
  };
  std::int64_t chunk = 0;  // Hidden columns per chunk; the last chunk may have fewer
  ChunkPlan each, last;
  std::size_t scratch_bytes = 0, workspace_bytes = 0;
  double predicted_s = 0;
  bool operator==(const GatedBackwardPlan&) const = default;
};

Reason unsupported_reason(const GatedBackward& call);
// Plans with `chunk` hidden columns per chunk (n if h was kept). Returns nullopt if this needs a larger workspace.
std::optional<GatedBackwardPlan> make_plan(const GatedBackward& call, std::size_t workspace_bytes,
                                           const DeviceNumbers& device, std::int64_t chunk);
// Returns the plan with the smallest workspace among those within 1 % of the fastest. If no plan fits the workspace,
// returns the smallest plan; launch() then fails and states the needed bytes. The call must be supported.
GatedBackwardPlan choose_plan(const GatedBackward& call, std::size_t workspace_bytes, const DeviceNumbers& device);
Status launch(const GatedBackward& call, const GatedBackwardPlan& plan, const device::DeviceWorkspace& workspace,
              CUstream_st* stream);

// Plan for forward and backward of a layer if `free_bytes` are available besides inputs and outputs (x, weights,
// biases, dy; y, dx, dw, db), which are aligned and of one dtype. h is kept if it fits, because keeping h is faster.
struct GatedTrainingPlan {
  bool keeps_h = false;
  std::int64_t chunk = 0;       // Hidden columns per chunk of backward
  std::size_t extra_bytes = 0;  // Bytes of h, if kept, and of the workspace; at most free_bytes
  double forward_s = 0, backward_s = 0;
};
Result<GatedTrainingPlan> plan_gated_training(const GatedCall& layer, std::size_t free_bytes,
                                              const DeviceNumbers& device);

}  // namespace ridge::ops::cuda

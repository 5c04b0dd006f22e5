// Backward of a gated layer y = (x*up^T + bu) * act(x*gate^T + bg) on a CUDA device: from dy the gradients of x, of
// both weights and of both biases. Memory, streams and workspace are as in matmul_cuda.h. There are two modes:
//
//   keeping h       forward kept the pre-activations h = [u, g] (gated_cuda.h): dh takes their place, or one of its own
//                   where h is read again, in one pass that adds up the biases' gradient, and dx = dh*w and dw = dh^T*x
//                   follow. 4*m*n bytes beside inputs and outputs, 3 * 4*m*n*k FLOPs with forward.
//   keeping only x  h is computed again, some hidden columns at a time: for each chunk of c, h_c by the layer's own
//                   kernel, dh_c in its place, dw_c = dh_c^T*x, which is finished then, and dx += dh_c*w_c. 4*m*c
//                   bytes, a third more FLOPs. (Chunks of rows would have to add to all of dw, which is larger than
//                   dx.)
//
// Rounding: dh is rounded to the dtype, sums are f32, and dx is added up in its own dtype by the copy engine. With q
// chunks that leaves the error of 1 + (q + 1) / 2 - 1 / q independent roundings of dx (q = 4: 3.3, 8: 5.4) beside that
// of dh's and h's own, some two, which whoever computes in bf16 has, against one with h kept: at 8 chunks, the most
// that are made, 1.6 times the error of the other mode. f32 sums would cost 4*m*k bytes more and be read and written q
// times.
#pragma once

#include "ridge/base/result.h"
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/gated/gradient.h"
#include "ridge/ops/gated/input_gradient.h"

namespace ridge::ops::cuda {

struct GatedBackward {
  static constexpr int most_chunks = 8;
  std::int64_t m = 0, n = 0, k = 0;  // rows, hidden columns, width
  DType dtype = DType::bf16;         // of all: bf16 or f16
  Activation activation = Activation::gelu;
  const void* x = nullptr;                    // [m, k]
  const void *up = nullptr, *gate = nullptr;  // [n, k] each
  const void *bu = nullptr, *bg = nullptr;    // [n] each; null: none. Read only where h is computed again
  const void* dy = nullptr;                   // [m, n]
  void* h = nullptr;                          // [m, 2*n]: u beside g; null: computed again
  void* dh = nullptr;                         // where h was kept, [m, 2*n] with its lines; null: dh takes its place
  void* dx = nullptr;                         // [m, k]; null: not wanted
  void *dup = nullptr, *dgate = nullptr;      // [n, k] each; null: not wanted
  void *dbu = nullptr, *dbg = nullptr;        // [n] each; null: not wanted
  std::int64_t x_line = 0, weight_line = 0;   // from row to row, in elements
  std::int64_t dy_line = 0, h_line = 0;       // …
  std::int64_t dx_line = 0, weight_grad_line = 0;  // …
};
// As ops/gated/layer.h has it (its y is not looked at), rows one behind the other; gradients of weights that are
// one matrix lie as those, and so do the biases'.
GatedBackward gated_backward(const GatedLayer& layer, const void* dy, void* dx, void* dw, void* db);

struct GatedBackwardPlan {
  struct Steps {  // of a chunk
    std::int64_t columns = 0;
    GatedPlan again;
    std::optional<InputGradientPlan> dx;  // none: two products
    std::vector<MatmulPlan> dx_products, dw_products;
    bool operator==(const Steps&) const = default;
  };
  std::int64_t chunk = 0;  // hidden columns at once, the last ones apart
  Steps each, last;        // last.columns may be as many
  std::size_t scratch_bytes = 0, workspace_bytes = 0;
  double predicted_s = 0;
  bool operator==(const GatedBackwardPlan&) const = default;
};

std::optional<std::string> refuse(const GatedBackward& call);
// In chunks of so many hidden columns (n where h was kept): none if that takes a larger workspace.
std::optional<GatedBackwardPlan> planned(const GatedBackward& call, std::size_t workspace_bytes,
                                         const DeviceNumbers& device, std::int64_t chunk);
// The fastest, and of those within 1 % the one with the smallest workspace. Where no chunk fits: the smallest, which
// launch() then refuses with the bytes that it needs. The call must not be refused.
GatedBackwardPlan choose(const GatedBackward& call, std::size_t workspace_bytes, const DeviceNumbers& device);
std::optional<std::string> launch(const GatedBackward& call, const GatedBackwardPlan& plan, const Workspace& workspace,
                                  CUstream_st* stream);

// How a layer goes forward and backward where so many bytes are free beside its inputs and outputs (x, weights, biases,
// dy; y, dx, dw, db), all aligned and of one dtype: keeping h where there is room, for that is always faster.
struct GatedTraining {
  bool keeps_h = false;
  std::int64_t chunk = 0;       // of hidden columns in backward
  std::size_t extra_bytes = 0;  // h where it is kept, and the workspace: at most what was free
  double forward_s = 0, backward_s = 0;
};
Result<GatedTraining> plan_training(const GatedCall& sizes, std::size_t free_bytes, const DeviceNumbers& device);

}  // namespace ridge::ops::cuda

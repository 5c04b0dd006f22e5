// Matrix products with an interface like cuBLASLt's: in device memory, on the caller's stream, with the caller's
// workspace. Calls do not allocate, free or wait; a CUDA graph may capture them.
//
//   ridge::MatmulCall call;                            // D[m, n] = A[m, k] * B[n, k] transposed
//   call.problem = {.m = m, .n = n, .k = k, .a = {ridge::DType::bf16, k, 1}, .b = {ridge::DType::bf16, 1, k},
//                   .d = {ridge::DType::bf16, n, 1}};  // dtype, row stride, column stride (and batch stride)
//   call.a = a, call.b = b, call.d = d;
//   const auto plan = ridge::plan_matmul(call, max_workspace_bytes);  // Once for each shape; about 0.1 ms on the host
//   // … workspace of plan->workspace_bytes(), at a multiple of 256 …
//   const auto done = ridge::matmul(stream, call, *plan, {workspace, plan->workspace_bytes()});
//
// Link with ridge::ridge of find_package(ridge). Works on devices of compute capability 9.0 (H100, H200); elsewhere
// every call returns an error of kind `absent`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/tuning.h"

struct CUstream_st;

namespace ridge {

// Layout of a matrix: element (r, c) of batch i is at data + i*batch_stride + r*row_stride + c*col_stride, in elements.
// One of row_stride and col_stride is 1 (or the extent along it is at most 1). With batch_stride 0, all batches use one
// matrix.
struct MatrixLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
};

// D[i] = A[i] * B[i] for i < batch: A is m x k, B is k x n, D is m x n. Sizes may be 0 (k = 0 writes zeros).
// bf16*bf16 or f16*f16 -> bf16, f16 or f32, sums in f32; f32*f32 as six products of bf16 parts, as accurate as f32.
//
// grouped: A and D are one matrix each. Their m rows form `batch` consecutive groups, which may be empty; product i
// multiplies the rows of group i by matrix i of B (mixture-of-experts, sequences of different lengths). One launch
// computes all groups. A and D have batch_stride 0, and the rows of D are contiguous. An A that is not contiguous along
// k is copied first if it has few rows, and uses a slow kernel if it has many.
struct MatmulProblem {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  MatrixLayout a = {}, b = {}, d = {};
  bool grouped = false;
};

enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh, silu };

// Operand of the epilogue, with strides as in `MatrixLayout`; a stride of 0 broadcasts, so a bias along the columns has
// strides 0, 1. Without data it is omitted. bf16, f16 or f32.
struct EpilogueOperand {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 0, batch_stride = 0;
};
// y = activation(alpha * scale * sum + bias) * gate + beta * addend, in f32. The addend may be D itself, element for
// element.
struct MatmulEpilogue {
  float alpha = 1, beta = 1;
  Activation activation = Activation::none;
  EpilogueOperand scale = {}, bias = {}, gate = {}, addend = {};
};

// A product with its data: D = A * B, then the epilogue. Inputs other than the addend must not overlap D. `constant_b`
// promises that no running kernel writes B (weights), so the device may read B early. `starts`, for a grouped problem:
// batch + 1 non-decreasing numbers in device memory, each in 0 … m; group i has rows starts[i] … starts[i + 1] - 1.
// They are read when the product runs, so an earlier kernel may write them. Numbers outside 0 … m are clamped; if a
// number is below its predecessor, D is undefined. Rows of D outside all groups stay unchanged. An operand of the
// epilogue has one row for each row of D, and one matrix for each group (such as the bias of each expert).
struct MatmulCall {
  MatmulProblem problem;
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  MatmulEpilogue epilogue = {};
  bool constant_b = false;
  const std::int32_t* starts = nullptr;
};

// Device memory that the caller provides for a call, besides the operands.
struct Workspace {
  void* data = nullptr;  // Aligned to 256 bytes
  std::int64_t bytes = 0;
  bool prepared = false;  // The first 64 KiB were zeroed before the first use; every call leaves them zero
};

// Kernel choice for a product. Immutable; copies share it.
class MatmulPlan {
 public:
  enum class Path { nothing, tiles, gemv, plain };  // The last three: tensor cores, few rows, any operands

  Path path() const;
  std::int64_t workspace_bytes() const;
  std::string kernel() const;        // Such as "sm90_128x192x64_pingpong" (`ridge kernels`), "sm90_gemv"
  int splits() const;                // Number of splits of k; they are added in order, so results are deterministic
  std::int64_t tiles() const;        // Number of output tiles
  double predicted_seconds() const;  // From the end of the previous kernel; 0 if unknown

  struct Impl;  // Internal
  explicit MatmulPlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// Returns a plan for the current device that uses at most this much workspace; plan.workspace_bytes() is what it needs.
// The plan is valid for every call with the same problem, epilogue and 16-byte alignment of the operands. Errors: an
// unsupported problem, no device.
//
// With {.from = Tuning::From::measured} and no cached choice, the first call allocates device memory for operands of
// its own (256 MiB or one set of them) and waits for the device, so a graph must not capture it.
Result<MatmulPlan> plan_matmul(const MatmulCall& call, std::int64_t max_workspace_bytes, const Tuning& tuning = {});

// Queues the product on `stream` (a cudaStream_t). Errors: those above; a workspace that is too small or misaligned; a
// failed launch. After an error, at most copies into the workspace were queued.
Status matmul(CUstream_st* stream, const MatmulCall& call, const MatmulPlan& plan, const Workspace& workspace);
// Plans and queues the product.
Status matmul(CUstream_st* stream, const MatmulCall& call, const Workspace& workspace);

}  // namespace ridge

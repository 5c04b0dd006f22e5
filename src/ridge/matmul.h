// Matrix products for other programs, as cuBLASLt's users know them: in device memory, on the caller's stream, with the
// caller's workspace. Nothing is allocated, freed or waited for; a call may be captured in a CUDA graph.
//
//   ridge::MatmulCall call;                            // D[m, n] = A[m, k] * B[n, k] transposed
//   call.problem = {.m = m, .n = n, .k = k, .a = {ridge::DType::bf16, k, 1}, .b = {ridge::DType::bf16, 1, k},
//                   .d = {ridge::DType::bf16, n, 1}};  // dtype, row stride, column stride (and batch stride)
//   call.a = a, call.b = b, call.d = d;
//   const auto plan = ridge::plan_matmul(call, most_workspace_bytes);      // once a shape: about 0.1 ms of the host
//   // … workspace of plan->workspace_bytes(), at a multiple of 256 …
//   const auto done = ridge::matmul(stream, call, *plan, {workspace, plan->workspace_bytes()});
//
// Link with ridge::ridge of find_package(ridge). Works on devices of compute capability 9.0 (H100, H200); elsewhere
// every call says so as an Error of kind `absent`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/tuning.h"

struct CUstream_st;

namespace ridge {

// A matrix in memory: element (r, c) of batch i lies at data + i*batch_stride + r*row_stride + c*col_stride, in
// elements. One of row_stride, col_stride is 1 (or the extent along it is at most 1). batch_stride 0: one matrix serves
// all.
struct MatrixLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
};

// D[i] = A[i] * B[i] for i < batch: A is m x k, B is k x n, D is m x n. Sizes may be 0 (k = 0 writes zeros).
// bf16*bf16 or f16*f16 -> bf16, f16 or f32, sums in f32; f32*f32, slowly.
//
// grouped: A and D are one matrix each, whose m rows lie in `batch` groups, one behind the other; product i takes the
// rows of group i, which may have none, and the matrix i of B (experts; sequences of different lengths). One launch
// does all groups. A and D have a batch_stride of 0, and D's rows are contiguous; an A that is not contiguous along k
// is copied first where it has few rows, and takes a slow kernel where it has many.
struct MatmulProblem {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  MatrixLayout a = {}, b = {}, d = {};
  bool grouped = false;
};

enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh, silu };

// What a sum meets on its way to D, read as a MatrixLayout is; a stride of 0 broadcasts, so a bias along the columns
// has strides 0, 1. Without data it is left out. bf16, f16 or f32.
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

// A product with its data: D = A * B, then the epilogue. Inputs must not overlap D (but for the addend). constant_b:
// no kernel that still runs writes B (weights), so the device may read it early. starts: of a grouped problem, in
// device memory: batch + 1 numbers that never fall, each in 0 … m; group i has rows starts[i] … starts[i + 1] - 1. They
// are read when the product runs, so an earlier kernel may write them; what lies outside 0 … m counts as the nearest
// that does not, and what D holds behind numbers that fall is not said. Rows of D that are in no group are left as they
// are. An operand of the epilogue has a row for each of D's, and a matrix for each group (a bias of each expert).
struct MatmulCall {
  MatmulProblem problem;
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  MatmulEpilogue epilogue = {};
  bool constant_b = false;
  const std::int32_t* starts = nullptr;
};

// Device memory of the caller's that a call may use beside its operands.
struct Workspace {
  void* data = nullptr;  // at a multiple of 256 bytes
  std::int64_t bytes = 0;
  bool prepared = false;  // its first 64 KiB were zero before its first use; every call leaves them zero
};

// What will run. A handle of a plan that never changes: copies are cheap and share it.
class MatmulPlan {
 public:
  enum class Path { nothing, tiles, gemv, plain };  // of tensor cores; of few rows; of any operands

  Path path() const;
  std::int64_t workspace_bytes() const;
  std::string kernel() const;        // of `ridge kernels`: "sm90_128x192x64_pingpong"; "sm90_gemv", "sm90_plain"
  int splits() const;                // of k, whose sums are added in order: the same bits every time
  std::int64_t tiles() const;        // of D
  double predicted_seconds() const;  // what plans are compared by: from the end of the kernel before; 0: not known

  struct Parts;  // the library's own
  explicit MatmulPlan(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};

// What will run, for the current device, within so much workspace; plan.workspace_bytes() says how much it takes. It
// holds for every call of the same problem, epilogue and alignment of operands (16 bytes). Errors: a problem that is
// refused (a sentence), no device.
//
// {.from = Tuning::From::measured}, where none is kept, once allocates device memory for operands of its own (256 MiB
// or one set of them), waits, and must not be captured in a graph.
Result<MatmulPlan> plan_matmul(const MatmulCall& call, std::int64_t most_workspace_bytes, const Tuning& tuning = {});

// Queues it on `stream` (a cudaStream_t). Errors: as above; a workspace that is too small or not aligned; a launch that
// the driver refuses. After an error nothing was queued but, possibly, copies into the workspace.
Status matmul(CUstream_st* stream, const MatmulCall& call, const MatmulPlan& plan, const Workspace& workspace);
// Plans and queues.
Status matmul(CUstream_st* stream, const MatmulCall& call, const Workspace& workspace);

}  // namespace ridge

// Matrix products for other programs, as cuBLASLt's users know them: in device memory, on the caller's stream, with the
// caller's workspace. Nothing is allocated, freed or waited for; a call may be captured in a CUDA graph.
//
//   ridge::MatmulCall call;                            // D[m, n] = A[m, k] * B[n, k] transposed
//   call.problem = {.m = m, .n = n, .k = k, .a = {ridge::DType::bf16, k, 1}, .b = {ridge::DType::bf16, 1, k},
//                   .d = {ridge::DType::bf16, n, 1}};  // dtype, row stride, column stride (and batch stride)
//   call.a = a, call.b = b, call.d = d;
//   const auto plan = ridge::plan_matmul(call, most_workspace_bytes);      // once a shape: about 0.1 ms of the host
//   // … workspace of plan->workspace_bytes, at a multiple of 256 …
//   const auto done = ridge::matmul(stream, call, *plan, {workspace, plan->workspace_bytes});
//
// Link with ridge::ridge of find_package(ridge). Works on devices of compute capability 9.0 (H100, H200); elsewhere
// every call says so as an Error of kind `absent`.
#pragma once

#include "ridge/base/result.h"
#include "ridge/measure/tune.h"
#include "ridge/ops/product/cuda.h"

namespace ridge {

using ops::MatmulProblem, ops::MatrixLayout;
using ops::cuda::MatmulCall, ops::cuda::MatmulEpilogue, ops::cuda::MatmulPlan, ops::cuda::Workspace;

// What will run, for the current device, within so much workspace; plan.workspace_bytes says how much it takes. It
// holds for every call of the same problem, epilogue and alignment of operands (16 bytes). Errors: a problem that is
// refused (a sentence), no device.
//
// {.stored = true}: a choice that was measured before and lies in the user's cache goes before the model's. {.stored =
// true, .candidates = 8}: where there is none, measures the model's 8 best and keeps the fastest; this once allocates
// device memory for operands of its own (256 MiB or one set of them), waits, and must not be captured in a graph.
Result<MatmulPlan> plan_matmul(const MatmulCall& call, std::size_t most_workspace_bytes, const TuneOptions& tune = {});

// Queues it on `stream` (a cudaStream_t). Errors: as above; a workspace that is too small or not aligned; a launch that
// the driver refuses. After an error nothing was queued but, possibly, copies into the workspace.
Status matmul(CUstream_st* stream, const MatmulCall& call, const MatmulPlan& plan, const Workspace& workspace);
// Plans and queues.
Status matmul(CUstream_st* stream, const MatmulCall& call, const Workspace& workspace);

}  // namespace ridge

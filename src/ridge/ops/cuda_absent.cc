// Stubs of the CUDA operations of the folders in ops, for builds without CUDA. Each stub returns the error of
// device/device.cc. The stubs are compiled in place of the .cu files (CMakeLists.txt). Planning still works.
#include "ridge/device/device.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/gated/gradient.h"
#include "ridge/ops/gated/input_gradient.h"
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/windows/image_copy.h"
#include "ridge/ops/routing/cuda.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/ops/verify/cuda.h"

namespace ridge::ops::cuda {
namespace {
Error no_cuda_error() { return device::check_device({}).error(); }
}  // namespace

Status launch(const MatmulCall&, const MatmulPlan&, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_error();
}
Status launch(const GatedCall&, const GatedPlan&, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_error();
}
Status launch(const AttentionCall&, const AttentionPlan&, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_error();
}
Status launch(const AttentionBackwardCall&, const AttentionBackwardPlan&, const device::DeviceWorkspace&,
              CUstream_st*) {
  return no_cuda_error();
}
Status launch(const GateGradientCall&, const device::DeviceWorkspace&, CUstream_st*) { return no_cuda_error(); }
Status launch(const InputGradient&, const InputGradientPlan&, CUstream_st*) { return no_cuda_error(); }
std::optional<KernelResources> kernel_resources(int, DType) { return std::nullopt; }
Reason unsupported_reason(const RowProblem&) { return no_cuda_error().message; }
Reason unsupported_reason(const RowProgram&) { return no_cuda_error().message; }
Reason unsupported_reason(const ReduceProblem&) { return no_cuda_error().message; }
std::size_t workspace_bytes(const RowProblem&) { return 0; }
Status launch_row_kernel(const RowProblem&, const RowData&, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_error();
}
Status launch_row_kernel(const RowProgram&, std::span<void* const>, CUstream_st*) { return no_cuda_error(); }
std::size_t workspace_bytes(const ReduceProblem&) { return 0; }
Status reduce(const ReduceProblem&, const void*, void*, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_error();
}
Status copy_images(const ImageCopy&, const void*, void*, CUstream_st*) { return no_cuda_error(); }
Status route_rows(const RoutingProblem&, std::span<void* const>, CUstream_st*) { return no_cuda_error(); }
std::size_t workspace_bytes(const GatherScatterLoops&) { return 0; }
std::size_t workspace_bytes(const RunningSumLoops&) { return 0; }
std::size_t workspace_bytes(const TopKLoops&) { return 0; }
Status run_loops(const GatherScatterLoops&, std::span<void* const>, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_error();
}
Status run_loops(const RunningSumLoops&, std::span<void* const>, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_error();
}
Status run_loops(const TopKLoops&, std::span<void* const>, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_error();
}
Status run_loops(const PoolLoops&, std::span<void* const>, CUstream_st*) { return no_cuda_error(); }
Status run_loops(const RotaryLoops&, std::span<void* const>, CUstream_st*) { return no_cuda_error(); }
Status run_loops(const RoutedProductLoops&, std::span<void* const>, CUstream_st*) { return no_cuda_error(); }
Status run_loops(const QuantizeLoops&, std::span<void* const>, CUstream_st*) { return no_cuda_error(); }
Status run_loops(const DequantizeLoops&, std::span<void* const>, CUstream_st*) { return no_cuda_error(); }
Status verify_samples(const CheckedProduct&, const void*, CheckCounters*, CUstream_st*) { return no_cuda_error(); }
Status verify_all(const CheckedProduct&, const void*, const void*, CheckCounters*, CUstream_st*) {
  return no_cuda_error();
}

}  // namespace ridge::ops::cuda

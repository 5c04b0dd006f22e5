// Stubs of the CUDA operations of the folders in ops, for builds without CUDA. Each stub returns the error of
// device/device.cc. The stubs are compiled in place of the .cu files (CMakeLists.txt). Planning still works.
#include "ridge/device/device.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/gated/gradient.h"
#include "ridge/ops/gated/input_gradient.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/routing/cuda.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/ops/verify/cuda.h"

namespace ridge::ops::cuda {
namespace {
std::string no_cuda_message() { return device::device_error({})->message; }
}  // namespace

std::optional<std::string> launch(const MatmulCall&, const MatmulPlan&, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> launch(const GatedCall&, const GatedPlan&, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> launch(const AttentionCall&, const AttentionPlan&, const device::DeviceWorkspace&,
                                  CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> launch(const AttentionBackwardCall&, const AttentionBackwardPlan&,
                                  const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> launch(const GateGradientCall&, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> launch(const InputGradient&, const InputGradientPlan&, CUstream_st*) {
  return no_cuda_message();
}
std::optional<KernelResources> kernel_resources(int, DType) { return std::nullopt; }
std::optional<std::string> unsupported_reason(const ChainProgram&) { return no_cuda_message(); }
std::optional<std::string> unsupported_reason(const RowProblem&) { return no_cuda_message(); }
std::optional<std::string> unsupported_reason(const RowProgram&) { return no_cuda_message(); }
std::optional<std::string> unsupported_reason(const ReduceProblem&) { return no_cuda_message(); }
std::optional<std::string> run_chain_program(const ChainProgram&, std::span<void* const>, CUstream_st*) {
  return no_cuda_message();
}
std::size_t workspace_bytes(const RowProblem&) { return 0; }
std::optional<std::string> launch_row_kernel(const RowProblem&, const RowData&, const device::DeviceWorkspace&,
                                             CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> launch_row_kernel(const RowProgram&, std::span<void* const>, CUstream_st*) {
  return no_cuda_message();
}
std::size_t workspace_bytes(const ReduceProblem&) { return 0; }
std::optional<std::string> reduce(const ReduceProblem&, const void*, void*, const device::DeviceWorkspace&,
                                  CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> route_rows(const RoutingProblem&, std::span<void* const>, CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> verify_samples(const CheckedProduct&, const void*, CheckCounters*, CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> verify_all(const CheckedProduct&, const void*, const void*, CheckCounters*, CUstream_st*) {
  return no_cuda_message();
}

}  // namespace ridge::ops::cuda

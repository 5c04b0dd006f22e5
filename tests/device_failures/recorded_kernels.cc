// Kernels of src/ridge/ops that record their launch and do nothing (recorded_device.h).
#include "recorded_device.h"
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

using ridge::testing::record_work;

Status launch(const MatmulCall&, const MatmulPlan&, const device::DeviceWorkspace&, CUstream_st*) {
  return record_work("a product");
}
Status launch(const GatedCall&, const GatedPlan&, const device::DeviceWorkspace&, CUstream_st*) {
  return record_work("a gated layer");
}
Status launch(const AttentionCall&, const AttentionPlan&, const device::DeviceWorkspace&, CUstream_st*) {
  return record_work("attention");
}
Status launch(const AttentionBackwardCall&, const AttentionBackwardPlan&, const device::DeviceWorkspace&,
              CUstream_st*) {
  return record_work("gradients of attention");
}
Status launch(const GateGradientCall&, const device::DeviceWorkspace&, CUstream_st*) {
  return record_work("gradients of a gate");
}
Status launch(const InputGradient&, const InputGradientPlan&, CUstream_st*) {
  return record_work("gradients of an input");
}
std::optional<KernelResources> kernel_resources(int, DType) { return std::nullopt; }
Reason unsupported_reason(const RowProblem&) { return {}; }
Reason unsupported_reason(const RowProgram&) { return {}; }
Reason unsupported_reason(const ReduceProblem&) { return {}; }
std::size_t workspace_bytes(const RowProblem&) { return 0; }
Status launch_row_kernel(const RowProblem&, const RowData&, const device::DeviceWorkspace&, CUstream_st*) {
  return record_work("a row kernel");
}
Status launch_row_kernel(const RowProgram&, std::span<void* const>, CUstream_st*) {
  return record_work("a row program");
}
std::size_t workspace_bytes(const ReduceProblem&) { return 0; }
Status reduce(const ReduceProblem&, const void*, void*, const device::DeviceWorkspace&, CUstream_st*) {
  return record_work("a reduction");
}
Status copy_images(const ImageCopy&, const void*, void*, CUstream_st*) { return record_work("a copy of images"); }
Status route_rows(const RoutingProblem&, std::span<void* const>, CUstream_st*) { return record_work("a routing"); }
std::size_t workspace_bytes(const GatherScatterLoops&) { return 0; }
std::size_t workspace_bytes(const RunningSumLoops&) { return 0; }
std::size_t workspace_bytes(const TopKLoops&) { return 0; }
Status run_loops(const GatherScatterLoops&, std::span<void* const>, const device::DeviceWorkspace&, CUstream_st*) {
  return record_work("a gather or scatter");
}
Status run_loops(const RunningSumLoops&, std::span<void* const>, const device::DeviceWorkspace&, CUstream_st*) {
  return record_work("running sums");
}
Status run_loops(const TopKLoops&, std::span<void* const>, const device::DeviceWorkspace&, CUstream_st*) {
  return record_work("top-k");
}
Status run_loops(const RoutedProductLoops&, std::span<void* const>, CUstream_st*) {
  return record_work("a routed product");
}
Status run_loops(const PoolLoops&, std::span<void* const>, CUstream_st*) { return record_work("a pool"); }
Status run_loops(const RotaryLoops&, std::span<void* const>, CUstream_st*) { return record_work("a rotation"); }
Status run_loops(const QuantizeLoops&, std::span<void* const>, CUstream_st*) { return record_work("a quantization"); }
Status run_loops(const DequantizeLoops&, std::span<void* const>, CUstream_st*) {
  return record_work("a dequantization");
}
Status verify_samples(const CheckedProduct&, const void*, CheckCounters*, CUstream_st*) {
  return record_work("a check of samples");
}
Status verify_all(const CheckedProduct&, const void*, const void*, CheckCounters*, CUstream_st*) {
  return record_work("a check of all elements");
}

}  // namespace ridge::ops::cuda

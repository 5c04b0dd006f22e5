// Stubs of all CUDA functions for builds without CUDA. Each returns the error of device/device.cc that says so. They
// are compiled in place of the .cu files (CMakeLists.txt); a missing stub is a link error. Planning still works.
#include "ridge/device/device.h"
#include "ridge/device/peak.h"
#include "ridge/device/peers.h"
#include "ridge/device/run_generated.h"
#include "ridge/device/small_messages.h"
#include "ridge/device/stream.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/gated/gradient.h"
#include "ridge/ops/gated/input_gradient.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/routing/cuda.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/ops/verify/cuda.h"

namespace ridge::device {
namespace {
Error no_cuda_error() { return *device_error({}); }
}  // namespace

int current_device() { return -1; }
Status use_device(int) { return no_cuda_error(); }
int multiprocessor_count() { return 0; }
int max_active_clusters(int) { return 0; }
DriverReport query_driver() { return {}; }
Result<DeviceProperties> device_properties() { return no_cuda_error(); }
Result<DeviceBuffer> DeviceBuffer::allocate(std::int64_t, Location) { return no_cuda_error(); }
Result<Queue> Queue::create(Priority) { return no_cuda_error(); }
Status Queue::copy(void*, const void*, std::int64_t) const { return no_cuda_error(); }
Status Queue::copy_rows(const PitchedRows&, const PitchedRows&, std::int64_t, std::int64_t) const {
  return no_cuda_error();
}
Status Queue::wait_for(const Queue&) const { return no_cuda_error(); }
Status Queue::set_bytes(void*, int, std::int64_t) const { return no_cuda_error(); }
Status Queue::fill_normal(void*, DType, std::int64_t, std::uint32_t) const { return no_cuda_error(); }
Status Queue::synchronize() const { return no_cuda_error(); }
Result<RecordedGraph> Queue::record_graph(const std::function<Status()>&) const { return no_cuda_error(); }
Status Queue::launch_graph(const RecordedGraph&) const { return no_cuda_error(); }
Result<double> Queue::measure_seconds(const std::function<Status()>&) const { return no_cuda_error(); }
Status copy_on_stream(CUstream_st*, void*, const void*, std::int64_t) { return no_cuda_error(); }
Status clear_on_stream(CUstream_st*, void*, std::int64_t) { return no_cuda_error(); }
OutsideCapture::OutsideCapture() = default;
OutsideCapture::~OutsideCapture() = default;
Result<MemoryHandle> export_handle(const DeviceBuffer&) { return no_cuda_error(); }
Result<ImportedMemory> ImportedMemory::open(const MemoryHandle&) { return no_cuda_error(); }
Status set_flags(const Queue&, std::span<DeviceFlag* const>) { return no_cuda_error(); }
Status wait_for_flags(const Queue&, std::span<DeviceFlag* const>) { return no_cuda_error(); }
Status set_then_wait(const Queue&, std::span<DeviceFlag* const>, std::span<const AwaitedFlag>) {
  return no_cuda_error();
}
std::int64_t SmallBuffer::bytes() const { return data_bytes(); }
Status exchange_small(const Queue&, const SmallBuffer&, const SmallMessage&) { return no_cuda_error(); }
std::optional<std::string> interpreter_note() { return no_cuda_error().message; }
std::optional<std::string> read_all(const StreamedBuffers&, int, CUstream_st*) { return no_cuda_error().message; }
std::optional<std::string> write_all(const StreamedBuffers&, int, CUstream_st*) { return no_cuda_error().message; }
std::optional<std::string> copy_all(const StreamedBuffers&, int, CUstream_st*) { return no_cuda_error().message; }
std::optional<std::string> multiply_add(int, int, CUstream_st*) { return no_cuda_error().message; }
std::optional<std::string> launch_empty_kernel(CUstream_st*) { return no_cuda_error().message; }

}  // namespace ridge::device

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
std::optional<std::string> launch(const GatedGradient&, const device::DeviceWorkspace&, CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> launch(const InputGradient&, const InputGradientPlan&, CUstream_st*) {
  return no_cuda_message();
}
std::optional<ConfigProperties> config_properties(int, DType) { return std::nullopt; }
std::optional<std::string> unsupported_reason(const ChainProgram&) { return no_cuda_message(); }
std::optional<std::string> unsupported_reason(const RowProblem&) { return no_cuda_message(); }
std::optional<std::string> unsupported_reason(const RowProgram&) { return no_cuda_message(); }
std::optional<std::string> unsupported_reason(const ReduceProblem&) { return no_cuda_message(); }
std::optional<std::string> run_chain_program(const ChainProgram&, std::span<void* const>, CUstream_st*) {
  return no_cuda_message();
}
std::size_t workspace_bytes(const RowProblem&) { return 0; }
std::optional<std::string> launch_rows(const RowProblem&, const RowData&, const device::DeviceWorkspace&,
                                       CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> launch_rows(const RowProgram&, std::span<void* const>, CUstream_st*) {
  return no_cuda_message();
}
std::size_t workspace_bytes(const ReduceProblem&) { return 0; }
std::optional<std::string> reduce(const ReduceProblem&, const void*, void*, const device::DeviceWorkspace&,
                                  CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> route_rows(const RoutedRows&, std::span<void* const>, CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> verify_samples(const CheckedProduct&, const void*, CheckCounters*, CUstream_st*) {
  return no_cuda_message();
}
std::optional<std::string> verify_all(const CheckedProduct&, const void*, const void*, CheckCounters*, CUstream_st*) {
  return no_cuda_message();
}

}  // namespace ridge::ops::cuda

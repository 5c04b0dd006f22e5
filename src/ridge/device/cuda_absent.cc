// Stubs of this folder's CUDA functions for builds without CUDA, compiled in place of its .cu files. Each returns the
// error of device.cc that says so.
#include "ridge/device/device.h"
#include "ridge/device/peak.h"
#include "ridge/device/peers.h"
#include "ridge/device/run_generated.h"
#include "ridge/device/small_messages.h"
#include "ridge/device/stream.h"

namespace ridge::device {
namespace {
Error no_cuda_error() { return check_device({}).error(); }
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
RelaxedCaptureGuard::RelaxedCaptureGuard() = default;
RelaxedCaptureGuard::~RelaxedCaptureGuard() = default;
Result<MemoryHandle> export_handle(const DeviceBuffer&) { return no_cuda_error(); }
Result<ImportedMemory> ImportedMemory::open(const MemoryHandle&) { return no_cuda_error(); }
Status set_flags(const Queue&, std::span<DeviceFlag* const>) { return no_cuda_error(); }
Status wait_and_reset_flags(const Queue&, std::span<DeviceFlag* const>) { return no_cuda_error(); }
Status set_and_wait_flags(const Queue&, std::span<DeviceFlag* const>, std::span<const AwaitedFlag>) {
  return no_cuda_error();
}
std::int64_t SmallBufferLayout::bytes() const { return data_bytes(); }
Status queue_small_collective(const Queue&, const SmallBufferLayout&, const SmallMessage&) { return no_cuda_error(); }
Reason generation_unavailable_reason() { return no_cuda_error().message; }
Status launch_generated(const GeneratedKernel&, CUstream_st*) { return no_cuda_error(); }
Status launch_read(const StreamedBuffers&, int, CUstream_st*) { return no_cuda_error(); }
Status launch_write(const StreamedBuffers&, int, CUstream_st*) { return no_cuda_error(); }
Status launch_copy(const StreamedBuffers&, int, CUstream_st*) { return no_cuda_error(); }
Status launch_fma(int, int, CUstream_st*) { return no_cuda_error(); }
Status launch_empty_kernel(CUstream_st*) { return no_cuda_error(); }

}  // namespace ridge::device

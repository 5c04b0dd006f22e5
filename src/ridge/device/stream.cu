#include "ridge/device/stream.h"

#include <cuda_runtime.h>

#include "ridge/device/cuda_status.h"

namespace ridge::device {

Status copy_on_stream(CUstream_st* stream, void* to, const void* from, std::int64_t bytes) {
  return to_status(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
                   "a copy");
}

Status clear_on_stream(CUstream_st* stream, void* to, std::int64_t bytes) {
  return to_status(cudaMemsetAsync(to, 0, static_cast<std::size_t>(bytes), stream), "setting memory");
}

RelaxedCaptureGuard::RelaxedCaptureGuard() {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  mode_ = static_cast<int>(mode);
}

RelaxedCaptureGuard::~RelaxedCaptureGuard() {
  auto mode = static_cast<cudaStreamCaptureMode>(mode_);
  cudaThreadExchangeStreamCaptureMode(&mode);
}

}  // namespace ridge::device

// A kernel that uses more than 48 KiB of shared memory must request it, once per device. Internal to code that launches
// CUDA kernels.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace ridge::device {

// Allows `kernel` `bytes` of dynamic shared memory on the current device. Returns CUDA's error.
template <auto kernel> cudaError_t allow_shared_memory(int bytes) {
  static std::atomic<std::uint64_t> configured_devices{0};
  int device = 0;
  if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  const std::uint64_t bit = std::uint64_t{1} << (device % 64);
  if (configured_devices.load(std::memory_order_acquire) & bit) return cudaSuccess;
  const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (e == cudaSuccess) configured_devices.fetch_or(bit, std::memory_order_release);
  return e;
}

}  // namespace ridge::device

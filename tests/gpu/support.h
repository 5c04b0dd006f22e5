// Allocates device memory and checks CUDA calls; the program exits with a message if one fails.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ridge/device/device.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::gpu {

inline void check_cuda(cudaError_t e, const char* what) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
  std::exit(2);
}

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    check_cuda(cudaMalloc(&data_, bytes), "allocating device memory");
  }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  std::size_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

enum class ElementFormat : int { bf16, f16, f32, e4m3, e4m3_128, int8, int32 };
__host__ __device__ inline ElementFormat element_format(DType x) {
  if (x == DType::e4m3) return ElementFormat::e4m3;
  if (x == DType::e4m3_128) return ElementFormat::e4m3_128;
  if (x == DType::int8) return ElementFormat::int8;
  if (x == DType::int32) return ElementFormat::int32;
  if (x == DType::bf16) return ElementFormat::bf16;
  if (x == DType::f16) return ElementFormat::f16;
  return ElementFormat::f32;
}

int check_matmul(int argc, char** argv);
int check_weights(int argc, char** argv);
int time_weights(int argc, char** argv);
int check_gated(int argc, char** argv);
int check_functions();
int check_attention(int argc, char** argv);
int check_attention_backward(int argc, char** argv);
int check_rows(int argc, char** argv);
int check_loops(int argc, char** argv);
int time_rows(int argc, char** argv);
int time_grouped(int argc, char** argv);

}  // namespace ridge::gpu

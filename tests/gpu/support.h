// Device memory, and an exit with a message if a CUDA call fails.
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

inline void must(cudaError_t e, const char* what) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
  std::exit(2);
}

class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) { must(cudaMalloc(&data_, bytes), "allocating device memory"); }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  std::size_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

enum class Stored : int { bf16, f16, f32 };
inline Stored stored(DType x) {
  if (x == DType::bf16) return Stored::bf16;
  if (x == DType::f16) return Stored::f16;
  return Stored::f32;
}

int check(int argc, char** argv);
int check_gated(int argc, char** argv);
int check_functions();
int check_attention(int argc, char** argv);
int check_attention_backward(int argc, char** argv);
int check_rows(int argc, char** argv);
int time_rows(int argc, char** argv);
int time_grouped(int argc, char** argv);

}  // namespace ridge::gpu

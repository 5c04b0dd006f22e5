// Peak-rate loops that `probe` times on a CUDA device. Each function queues one kernel on the caller's stream, without
// waiting. Errors: the launch fails. Kernels use `blocks` blocks of 512 threads.
#pragma once

#include <cstdint>

#include "ridge/base/result.h"

struct CUstream_st;

namespace ridge::device {

struct StreamedBuffers {  // Device memory; addresses and size are multiples of 16 bytes.
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t bytes = 0;
  int repeats = 1;  // Passes of `launch_read` within one launch; loads bypass the L1.
};
// A reading kernel needs only 4 bytes of `to`.
Status launch_read(const StreamedBuffers& x, int blocks, CUstream_st* stream);
Status launch_write(const StreamedBuffers& x, int blocks, CUstream_st* stream);
Status launch_copy(const StreamedBuffers& x, int blocks, CUstream_st* stream);

// Every thread executes rounds * `multiply_adds_per_round` fused multiply-adds in f32.
inline constexpr int multiply_adds_per_round = 128;
Status launch_fma(int rounds, int blocks, CUstream_st* stream);
Status launch_empty_kernel(CUstream_st* stream);

}  // namespace ridge::device

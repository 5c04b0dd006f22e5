// What is queued on a stream of the caller's, beside kernels. Nothing here allocates or waits, and all of it may be
// captured in a graph. No CUDA header is needed here.
#pragma once

#include <cstdint>

#include "ridge/base/result.h"

struct CUstream_st;

namespace ridge::ops::cuda {

Status copy_on(CUstream_st* stream, void* to, const void* from, std::int64_t bytes);  // within a device's memory
Status clear_on(CUstream_st* stream, void* to, std::int64_t bytes);

// While one lives, what this thread allocates, loads and waits for is no work of a graph that a stream captures.
class OutsideCapture {
 public:
  OutsideCapture();
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;
  ~OutsideCapture();

 private:
  int mode_ = 0;  // the thread's, before
};

}  // namespace ridge::ops::cuda

// Copies and memory initialization on the caller's stream. Nothing here allocates or waits, and everything may be
// captured in a graph. This header needs no CUDA header.
#pragma once

#include <cstdint>

#include "ridge/base/result.h"

struct CUstream_st;

namespace ridge::device {

Status copy_on_stream(CUstream_st* stream, void* to, const void* from, std::int64_t bytes);  // Within device memory.
Status clear_on_stream(CUstream_st* stream, void* to, std::int64_t bytes);

// RAII guard: allocations, module loads and waits of this thread do not invalidate a stream capture in progress.
class RelaxedCaptureGuard {
 public:
  RelaxedCaptureGuard();
  RelaxedCaptureGuard(const RelaxedCaptureGuard&) = delete;
  RelaxedCaptureGuard& operator=(const RelaxedCaptureGuard&) = delete;
  ~RelaxedCaptureGuard();

 private:
  int mode_ = 0;  // The thread's previous mode.
};

}  // namespace ridge::device

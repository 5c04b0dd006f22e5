// Checks the result of a product in device memory: 4096 elements against sums in f64, and all elements against the
// result of another library. Kernels are queued on the caller's stream. Errors: the launch fails.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"
#include "ridge/base/product_size.h"
#include "ridge/base/result.h"

struct CUstream_st;

namespace ridge::ops::cuda {

struct CheckedProduct {  // D[m, n]; A is [m, k] or [k, m], B is [k, n] or [n, k]; all are packed
  ProductSize size;
  bool a_transposed = false, b_transposed = false;
  // One of OperandDTypes or f32; `out` is bf16, f16 or f32, or int32 for int8
  DType dtype = DType::bf16, out = DType::bf16;
  const void *a = nullptr, *b = nullptr;
};

// Counters in device memory, initially zero. `above_typical_error` counts samples whose error exceeds that of random
// rounding in f32, even if it is within the error bound; `differing` counts elements that differ from the library's.
struct CheckCounters {
  unsigned sampled_wrong = 0, above_typical_error = 0, differing = 0;
  float max_error_ratio = 0;  // Largest ratio of a sample's error to its error bound
};
inline constexpr int verified_samples = 4096;

Status verify_samples(const CheckedProduct& product, const void* d, CheckCounters* counters, CUstream_st* stream);
Status verify_all(const CheckedProduct& product, const void* d, const void* library_d, CheckCounters* counters,
                  CUstream_st* stream);

}  // namespace ridge::ops::cuda

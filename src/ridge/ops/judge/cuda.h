// Whether a product on the device is right, without carrying it to the host: 4096 elements against a sum in f64, and
// all elements against another library's. Queued on the caller's stream; a sentence if the driver refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridge/base/dtype.h"

struct CUstream_st;

namespace ridge::ops::cuda {

struct JudgedProduct {  // D[m, n], packed; A is [m, k] or [k, m], B is [k, n] or [n, k]
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;
  DType dtype = DType::bf16, out = DType::bf16;  // bf16, f16; out: f32 as well
  const void *a = nullptr, *b = nullptr;
};

// In device memory, zero at first. loose: within the bound, yet further off than sums in f32 come by chance.
struct Comparison {
  unsigned sampled_wrong = 0, loose = 0, differing = 0;
  float worst = 0;  // of the bound
};
inline constexpr int judged_samples = 4096;

std::optional<std::string> judge_samples(const JudgedProduct& product, const void* d, Comparison* verdict,
                                         CUstream_st* stream);
std::optional<std::string> judge_all(const JudgedProduct& product, const void* d, const void* theirs,
                                     Comparison* verdict, CUstream_st* stream);

}  // namespace ridge::ops::cuda

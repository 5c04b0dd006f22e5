// What a kernel that hardly computes takes for its own instructions alone: its loads, conversions, functions and stores
// for so many elements, always at the same few lines of the L1, so that nothing is fetched, looked up or waited for. In
// cache a kernel comes as near to this as its loops let it: `ridge bench stream` shows both.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::kernels {

enum class ArithmeticText {
  affine,   // relu(1.3*x + 0.2) * r
  gelu,     // gelu(1.3*x + 0.2) * r
  cosines,  // cos(cos(x))
  rmsnorm,  // the sum of squares, then x * scale * weight
  softmax,  // the largest, e^(x - largest) and its sum, then their scaling
};
struct ArithmeticRun {
  ArithmeticText text = ArithmeticText::affine;
  DType dtype = DType::f32;  // of all arrays: f32, bf16 or f16
  std::int64_t n = 0;        // elements, rounded up to a group of 128 at most
};
void arithmetic(const ArithmeticRun& run);  // on the calling thread

void arithmetic_plain(const ArithmeticRun& run);
void arithmetic_avx2(const ArithmeticRun& run);
void arithmetic_avx512(const ArithmeticRun& run);

}  // namespace ridge::kernels

// What a kernel that hardly computes takes for its own instructions alone: its loads, conversions, functions and stores
// for so many elements, always at the same few lines of the L1, so that nothing is fetched, looked up or waited for;
// and what ends each row: its sum across the lanes, root and quotient, with nobody waiting for it either. Loads and
// stores are counted with all else, so the units that carry them bound it too (two loads and a store a cycle hold
// rmsnorm's three loads and one store at 1.5 cycles a vector). In cache a kernel comes as near to this as its loops let
// it: `ridge bench stream` shows both, and arithmetic_test.cc holds the instructions of one against those of the other.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops {

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
  std::int64_t columns = 0;  // of a row: rmsnorm and softmax
};
void arithmetic(const ArithmeticRun& run);  // on the calling thread

// y = affine or gelu of x and r, all of n elements of `dtype` and apart: chains known to the compiler, texts of one
// pass. On the calling thread.
struct CompiledChain {
  ArithmeticText text = ArithmeticText::affine;
  DType dtype = DType::f32;
  std::int64_t n = 0;
  const void *x = nullptr, *r = nullptr;
  void* y = nullptr;
};
void compiled_chain(const CompiledChain& run);

// arithmetic_body.cc, compiled once for each instruction set.
namespace plain {
void arithmetic(const ArithmeticRun& run);
void compiled_chain(const CompiledChain& run);
}  // namespace plain
namespace avx2 {
void arithmetic(const ArithmeticRun& run);
void compiled_chain(const CompiledChain& run);
}  // namespace avx2
namespace avx512 {
void arithmetic(const ArithmeticRun& run);
void compiled_chain(const CompiledChain& run);
}  // namespace avx512

}  // namespace ridge::ops

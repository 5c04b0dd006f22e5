// Instruction roofs of memory-bound kernels: loops that execute a kernel's loads, conversions, functions and stores for
// n elements on the same few lines of the L1, and the end of each row (sum across lanes, root, quotient), without cache
// misses or dependences. Load and store units bound them too: at two loads and one store a cycle, rmsnorm's three loads
// and one store take 1.5 cycles a vector. `ridge bench stream` compares kernels in cache with these roofs, and
// arithmetic_test.cc compares the instruction counts of both.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops {

enum class ArithmeticKernel {
  affine,   // relu(1.3*x + 0.2) * r
  gelu,     // gelu(1.3*x + 0.2) * r
  cosines,  // cos(cos(x))
  rmsnorm,  // sum of squares, then x * scale * weight
  softmax,  // maximum, e^(x - maximum) and its sum, then scaling
};
struct ArithmeticCall {
  ArithmeticKernel kernel = ArithmeticKernel::affine;
  DType dtype = DType::f32;  // Format of all arrays: f32, bf16 or f16.
  std::int64_t n = 0;        // Elements; rounded up to groups of at most 128.
  std::int64_t columns = 0;  // Columns of a row, for rmsnorm and softmax.
};
void execute_arithmetic(const ArithmeticCall& run);  // Runs on the calling thread.

// y = affine or gelu of x and r, disjoint arrays of n elements of `dtype`: chains compiled statically as kernels of
// one pass. Runs on the calling thread.
struct CompiledChain {
  ArithmeticKernel kernel = ArithmeticKernel::affine;
  DType dtype = DType::f32;
  std::int64_t n = 0;
  const void *x = nullptr, *r = nullptr;
  void* y = nullptr;
};
void run_compiled_chain(const CompiledChain& run);

// Defined in arithmetic_body.cc, which is compiled once for each instruction set.
namespace plain {
void execute_arithmetic(const ArithmeticCall& run);
void run_compiled_chain(const CompiledChain& run);
}  // namespace plain
namespace avx2 {
void execute_arithmetic(const ArithmeticCall& run);
void run_compiled_chain(const CompiledChain& run);
}  // namespace avx2
namespace avx512 {
void execute_arithmetic(const ArithmeticCall& run);
void run_compiled_chain(const CompiledChain& run);
}  // namespace avx512

}  // namespace ridge::ops

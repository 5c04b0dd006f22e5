// Roof loops give the speed of a kernel that is limited only by its instructions. They execute a kernel's loads,
// conversions, functions and stores for n elements, and the end of each row (sum across lanes, root, quotient), but on
// a few lines that stay in the L1 and without dependences. Load and store units limit them too: at two loads and one
// store a cycle, rmsnorm's three loads and one store take 1.5 cycles a vector. `ridge bench stream` compares kernels in
// cache with these roofs, and arithmetic_test.cc compares the instruction counts of both.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops {

enum class RoofKernel {
  affine,   // relu(1.3*x + 0.2) * r
  gelu,     // gelu(1.3*x + 0.2) * r
  cosines,  // cos(cos(x))
  rmsnorm,  // sum of squares, then x * scale * weight
  softmax,  // maximum, e^(x - maximum) and its sum, then scaling
};
struct RoofLoopCall {
  RoofKernel kernel = RoofKernel::affine;
  DType dtype = DType::f32;  // Format of all arrays: f32, bf16 or f16.
  std::int64_t n = 0;        // Elements; rounded up to groups of at most 128.
  std::int64_t columns = 0;  // Columns of a row, for rmsnorm and softmax.
};
void run_roof_loop(const RoofLoopCall& run);  // Runs on the calling thread.

// Chains that are compiled with Ridge instead of interpreted: y = affine or gelu of the disjoint arrays x and r of n
// elements. They run on the calling thread.
struct CompiledChain {
  RoofKernel kernel = RoofKernel::affine;
  DType dtype = DType::f32;
  std::int64_t n = 0;
  const void *x = nullptr, *r = nullptr;
  void* y = nullptr;
};
void run_compiled_chain(const CompiledChain& run);

// Defined in arithmetic_body.cc, which is compiled once for each instruction set.
namespace plain {
void run_roof_loop(const RoofLoopCall& run);
void run_compiled_chain(const CompiledChain& run);
}  // namespace plain
namespace avx2 {
void run_roof_loop(const RoofLoopCall& run);
void run_compiled_chain(const CompiledChain& run);
}  // namespace avx2
namespace avx512 {
void run_roof_loop(const RoofLoopCall& run);
void run_compiled_chain(const CompiledChain& run);
}  // namespace avx512

}  // namespace ridge::ops

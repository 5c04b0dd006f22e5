// Products on this CPU. Data pointers are to the first element. Inputs may be unaligned and must not overlap the
// output. `threads` is the number of threads; 0 means every core that the process may use (base/cores.h).
#pragma once

#include <cstdint>
#include <memory>

#include "ridge/base/reason.h"
#include "ridge/ops/product/call.h"

namespace ridge::ops {

// Returns why this CPU cannot run the problem.
Reason unsupported_reason(const MatmulProblem& problem);
Reason unsupported_reason(const MatmulCall& call);

// Computes D = A * B and the epilogue of a call. Requires a supported problem. Results do not depend on `threads`.
void matmul(const MatmulCall& call, int threads = 0);
void matmul(const MatmulProblem& problem, const void* a, const void* b, void* d, int threads = 0);

// B packed in the order in which this CPU's kernels read it, for any number of products with the same k, n and dtypes,
// from any thread. Meant for the weights of a layer. Its size is that of B in the type of the multiplies (f32, bf16 or
// int8, or a wider type if the CPU lacks instructions for that type), with columns rounded up to a multiple of 32.
class PackedWeights {
 public:
  // Packs B. Requires one B for all batches (batch_stride 0 or batch 1), no block-scaled operand, and a D with
  // contiguous rows.
  PackedWeights(const MatmulProblem& problem, const void* b);
  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  DType left_dtype() const { return left_dtype_; }    // Required type of A
  DType right_dtype() const { return right_dtype_; }  // Type of B before packing
  const void* data() const { return data_.get(); }

 private:
  std::int64_t n_, k_;
  DType left_dtype_, right_dtype_;
  std::shared_ptr<void> data_;
};
Reason unsupported_reason(const MatmulProblem& problem, const PackedWeights& b);
void matmul(const MatmulCall& call, const PackedWeights& b, int threads = 0);  // Ignores call.b
void matmul(const MatmulProblem& problem, const void* a, const PackedWeights& b, void* d, int threads = 0);

}  // namespace ridge::ops

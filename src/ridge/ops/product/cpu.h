// Products on this CPU. Data pointers are to the first element; inputs may be unaligned, must not overlap the
// output. Threads: 0 means every core that the process may use (base/cores.h), else exactly so many.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ridge/ops/product/call.h"

namespace ridge::ops {

// What stands in the way of running this problem, as a sentence; none: it runs.
std::optional<std::string> refuse(const MatmulProblem& problem);
std::optional<std::string> refuse(const MatmulCall& call);

// D = A * B, and with a call its epilogue. Must not be refused. The same call gives the same bits, whatever the
// threads.
void matmul(const MatmulCall& call, int threads = 0);
void matmul(const MatmulProblem& problem, const void* a, const void* b, void* d, int threads = 0);

// B in the order that this CPU's kernels read it, made once and used by any number of products with the same k, n and
// dtypes, from any thread. Worth its bytes where B is a layer's weights: those of the format that B is multiplied in
// (f32, bf16 or int8, where the CPU has no instructions for it a wider one), rounded up to 32 columns.
class PackedWeights {
 public:
  // The problem's B, which serves all batches (batch_stride 0 or batch 1); D's columns must lie side by side.
  PackedWeights(const MatmulProblem& problem, const void* b);
  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  DType left() const { return left_; }  // what A must be, and what B was
  DType right() const { return right_; }
  const void* data() const { return data_.get(); }

 private:
  std::int64_t n_, k_;
  DType left_, right_;
  std::shared_ptr<void> data_;
};
std::optional<std::string> refuse(const MatmulProblem& problem, const PackedWeights& b);
void matmul(const MatmulCall& call, const PackedWeights& b, int threads = 0);  // call.b is not looked at
void matmul(const MatmulProblem& problem, const void* a, const PackedWeights& b, void* d, int threads = 0);

}  // namespace ridge::ops

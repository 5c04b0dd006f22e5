// Runs programs on the caller's arrays, in host memory or in the memory of a CUDA device, with the same kernels as
// `ridge run` but without files, timers and checks.
//
//   const auto product = ridge::prepare({.program = "f32[M, K] * f32[K, N] -> f32[M, N]"},
//                                       {{"X", ridge::DType::f32, {2, 3}}, {"Y", ridge::DType::f32, {3, 4}}});
//   const std::int64_t x_shape[] = {2, 3}, y_shape[] = {3, 4}, z_shape[] = {2, 4};
//   const ridge::ArrayView in[] = {{x, ridge::DType::f32, x_shape}, {y, ridge::DType::f32, y_shape}};
//   const ridge::ArrayView out[] = {{z, ridge::DType::f32, z_shape}};
//   const auto done = (*product)(in, out);
//
// On a device, queueing a computation does not allocate, free or wait: the caller provides the scratch memory, and the
// work joins the caller's stream, so a CUDA graph may capture it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/symbol/dimensions.h"

struct CUstream_st;

namespace ridge {

// Element (i, j, …) is at data + i*strides[0] + j*strides[1] + …, in elements of `dtype`.
struct ArrayView {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::span<const std::int64_t> shape = {};
  std::span<const std::int64_t> strides = {};  // If empty: row-major without gaps
};

// Type of an array. Every extent is at least 1.
struct ArrayType {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape = {};
};

struct ComputeRequest {
  std::string program;              // Program text, an einsum string, or a file path
  Bindings dims = {};               // Dimensions that no array determines; others must match their arrays
  std::optional<DType> dtype = {};  // Dtype of tensors that declare none (default: the arrays')
  bool fuse = true;                 // If false, each statement is one kernel
  std::vector<std::string> requested_results = {};  // Names of the results to write (default: every output)
  std::optional<int> device = {};                   // CUDA device of the arrays; nullopt for host memory
};

// A program that is planned for arrays of given types. Copies share the plan. Calls from several threads are safe; they
// run one at a time.
class Computation {
 public:
  const std::vector<ArrayType>& inputs() const;   // In the program's order
  const std::vector<ArrayType>& outputs() const;  // In the program's order, or as requested
  std::int64_t scratch_bytes() const;             // Memory of a call besides its operands

  // Writes the outputs, on a CPU. Takes one array for each of inputs() and outputs(), in their order; threads = 0 uses
  // every core that the process may use. Inputs that have gaps, are not row-major or are misaligned for their elements
  // are copied first. Errors: an array of another type than planned; an output that is not row-major without gaps, or
  // that shares memory with an input or another output; an index out of its table's range; out of memory. If an array
  // is rejected, nothing is written.
  Status operator()(std::span<const ArrayView> inputs, std::span<const ArrayView> outputs, int threads = 0) const;

  // Queues the computation on a stream (a cudaStream_t) of the device that it was planned for. `scratch` is
  // scratch_bytes() of device memory at a multiple of 256, which this call alone uses until it has run. Errors: those
  // above; an array that `can_queue` rejects; a failed launch. A graph cannot capture kernels that have not run in this
  // process before.
  Status queue(CUstream_st* stream, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs,
               void* scratch) const;
  // True if the array is row-major without gaps and starts at a multiple of 16 bytes.
  static bool can_queue(const ArrayView& array);

  struct Impl;  // Internal
  explicit Computation(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

// Plans a program for inputs of these types. An input without a name is matched by its position. The arrays determine
// the dimensions. Errors: of the program (with its position); an input that is missing, unknown, given twice, or of
// another dtype or shape than declared; a dimension with two values or none; an unknown requested result; a statement
// that no kernel runs.
Result<Computation> prepare(const ComputeRequest& request, const std::vector<ArrayType>& inputs);

// Computes d[…, m, n] = a[…, m, k] * b[…, k, n] on a CPU, without a plan. Arrays have at least two axes; the leading
// axes of d equal those of each of a and b that has more than two. a and b are f32, bf16 or f16 with f32 sums, or int8
// with int32 sums; d has a's dtype or f32, or int32 for int8. Sizes may be 0; k = 0 writes zeros. Operands with strides
// that the kernels do not support are copied first. Errors: those of `Computation`.
Status matmul(const ArrayView& a, const ArrayView& b, const ArrayView& d, int threads = 0);

// A matrix [n, k] of a dtype with block scales along k, such as u4_128, in the layout of base/block_scale.h: blocks in
// host memory, and on a device the two planes that `split_blocks` writes.
struct BlockScaledWeights {
  const void* data = nullptr;
  DType dtype = DType::u4_128;
  std::int64_t n = 0, k = 0;
};
// Computes d[…, m, n] = a[…, m, k] * b[n, k], summed over k, as the function above does. a is f32, or bf16 unless the
// weights are e4m3_128, and k is a multiple of the block.
Status matmul(const ArrayView& a, const BlockScaledWeights& b, const ArrayView& d, int threads = 0);

// Computes y = exp(x) / sum of exp(x) along an axis on a CPU, without a plan. x and y are f32, bf16 or f16, of one
// dtype and shape; sums are f32. Sizes may be 0. An x that is not row-major is copied first. Errors: those of
// `Computation`.
Status softmax(const ArrayView& x, const ArrayView& y, int axis, int threads = 0);

// A matrix product in the memory of a CUDA device, of bf16, f16 or f32. Plans are cached: arrays with the same sizes,
// strides and alignment as earlier ones cost a look-up.
class MatmulOnDevice {
 public:
  // Errors: those of `matmul`; an operand that `can_read` rejects; an unknown device number.
  static Result<MatmulOnDevice> make(int device, const ArrayView& a, const ArrayView& b, const ArrayView& d);
  // Plans d[…, m, n] = a[…, m, k] * b[n, k], summed over k. a is bf16, or f16 with blocks of int4 or u4; k is a
  // multiple of the block and of 32, and b starts at a multiple of 16 bytes. d is f32, bf16 or f16. Up to 64 rows are
  // multiplied with the weights as they are stored; for more, the scratch memory has the weights in a's dtype. No
  // running kernel may write the weights. Errors: those of the function above.
  static Result<MatmulOnDevice> make(int device, const ArrayView& a, const BlockScaledWeights& b, const ArrayView& d);
  // True if kernels can read an operand with these strides; always for row-major ones.
  static bool can_read(const ArrayView& operand);

  std::int64_t scratch_bytes() const;
  // Queues the product, as `Computation::queue` does.
  Status queue(CUstream_st* stream, void* scratch) const;

  struct Impl;  // Internal
  explicit MatmulOnDevice(std::shared_ptr<const Impl> impl, const void* a, const void* b, void* d)
      : impl_(std::move(impl)), a_(a), b_(b), d_(d) {}

 private:
  std::shared_ptr<const Impl> impl_;
  const void *a_, *b_;
  void* d_;
};

// A gated layer of a training step in the memory of a CUDA device, and its gradients: y = u * gelu(g); u and g are the
// halves of h = x[rows, width] * w[2*hidden, width]^T + b[2*hidden]. Arrays are bf16 or f16, all of one dtype,
// row-major without gaps, at multiples of 16 bytes; sums are f32. Plans are cached by sizes.
class GegluOnDevice {
 public:
  struct Sizes {
    std::int64_t rows = 0, hidden = 0, width = 0;
    DType dtype = DType::bf16;
    bool has_bias = false;
    // If true, forward stores h and backward reads it. Otherwise backward recomputes h in groups of hidden columns,
    // with a third more arithmetic and a third of h's memory.
    bool keeps_h = false;
    bool operator==(const Sizes&) const = default;
  };
  // Errors: sizes that no kernel supports; an unknown device number.
  static Result<GegluOnDevice> make(int device, const Sizes& sizes);

  struct Forward {
    const void *x = nullptr, *w = nullptr, *b = nullptr;
    void *y = nullptr, *h = nullptr;
  };
  struct Backward {
    const void *x = nullptr, *w = nullptr, *b = nullptr, *dy = nullptr, *h = nullptr;
    void *dx = nullptr, *dw = nullptr, *db = nullptr;
  };
  // Bytes of scratch besides the operands; it starts at a multiple of 256 bytes.
  std::int64_t forward_scratch_bytes() const;
  std::int64_t backward_scratch_bytes() const;
  // Queues a pass, as `Computation::queue` does. The backward pass does not write h. Errors: an address that is null or
  // not a multiple of 16.
  Status queue(CUstream_st* stream, const Forward& arrays, void* scratch) const;
  Status queue(CUstream_st* stream, const Backward& arrays, void* scratch) const;

  struct Impl;  // Internal
  explicit GegluOnDevice(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

// Attention of a training step in the memory of a CUDA device, and its gradients: o = softmax(scale * q * k^T) * v in
// each head. Shapes: q and o [heads, rows, width], k and v [heads, keys, width], lse [heads, rows] in f32: the
// logarithm of the sum of a row's exponentials. Dtypes, layout and errors are those of `GegluOnDevice`.
class AttentionOnDevice {
 public:
  struct Sizes {
    std::int64_t heads = 0, rows = 0, keys = 0, width = 0;
    DType dtype = DType::bf16;
    bool causal = false;  // Row i attends to keys 0 to i
    double scale = 1;
    bool operator==(const Sizes&) const = default;
  };
  static Result<AttentionOnDevice> make(int device, const Sizes& sizes);

  struct Forward {
    const void *q = nullptr, *k = nullptr, *v = nullptr;
    void *o = nullptr, *lse = nullptr;
  };
  struct Backward {
    const void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *dout = nullptr, *lse = nullptr;
    void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  };
  std::int64_t forward_scratch_bytes() const;
  std::int64_t backward_scratch_bytes() const;
  Status queue(CUstream_st* stream, const Forward& arrays, void* scratch) const;
  Status queue(CUstream_st* stream, const Backward& arrays, void* scratch) const;

  struct Impl;  // Internal
  explicit AttentionOnDevice(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace ridge

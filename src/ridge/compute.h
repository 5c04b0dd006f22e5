// Programs on the caller's arrays, in this computer's memory or in a CUDA device's: what `ridge run` runs, with no
// file, timer or check around it.
//
//   const auto product = ridge::prepare({.program = "f32[M, K] * f32[K, N] -> f32[M, N]"},
//                                       {{"X", ridge::DType::f32, {2, 3}}, {"Y", ridge::DType::f32, {3, 4}}});
//   const std::int64_t of_x[] = {2, 3}, of_y[] = {3, 4}, of_z[] = {2, 4};
//   const ridge::ArrayView in[] = {{x, ridge::DType::f32, of_x}, {y, ridge::DType::f32, of_y}};
//   const ridge::ArrayView out[] = {{z, ridge::DType::f32, of_z}};
//   const auto done = (*product)(in, out);
//
// On a device nothing is allocated, freed or waited for while a computation is queued: what it needs beside its
// operands is the caller's, and the work joins the caller's stream, whose graphs may capture it.
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

// Element (i, j, …) lies at data + i*strides[0] + j*strides[1] + …, in elements of `dtype`.
struct ArrayView {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::span<const std::int64_t> shape = {};
  std::span<const std::int64_t> strides = {};  // empty: row-major without gaps
};

// What an array must be. Every extent is at least 1.
struct ArrayType {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape = {};
};

struct ComputeRequest {
  std::string program;                   // the text itself, an einsum string, or a file's path
  Bindings dims = {};                    // of dimensions that no array has; the others must agree with their arrays
  std::optional<DType> dtype = {};       // of tensors that name none; none: that of the arrays
  bool fuse = true;                      // false: one kernel a statement
  std::vector<std::string> wanted = {};  // the results that are written for the caller; empty: every output
  std::optional<int> device = {};        // the CUDA device in whose memory the arrays lie; none: this computer's
};

// A program that was planned for arrays of these types. A handle: copies are cheap and share it. Calls from several
// threads are safe and take turns at the cores.
class Computation {
 public:
  const std::vector<ArrayType>& inputs() const;   // in the program's order
  const std::vector<ArrayType>& outputs() const;  // likewise, or as they were wanted
  std::int64_t scratch_bytes() const;             // what a call holds beside its operands

  // On a CPU. Writes the outputs; an array for each of inputs() and outputs(), in their order. threads = 0: every core
  // that the process may use. Inputs with gaps, in another order of memory or off their element's alignment are copied
  // first. Errors: an array of another type than planned for; an output that is not row-major without gaps, or that
  // shares memory with an input or another output; an index that points beyond its table; no memory. After an error of
  // the arrays nothing was written.
  Status operator()(std::span<const ArrayView> inputs, std::span<const ArrayView> outputs, int threads = 0) const;

  // On the device that it was planned for. Queues it on a stream of that device (a cudaStream_t) and returns; `scratch`
  // has scratch_bytes() there, at a multiple of 256, for this call alone until it has run. Errors: as above; an array
  // that queues() says no of; a launch that the driver refuses. Until kernels have run once in this process, a graph
  // cannot capture them.
  Status queue(CUstream_st* stream, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs,
               void* scratch) const;
  // Row-major without gaps, at a multiple of 16 bytes.
  static bool queues(const ArrayView& array);

  struct Parts;  // the library's own
  explicit Computation(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

 private:
  std::shared_ptr<const Parts> parts_;
};

// Plans a program for inputs of these types. One without a name is the input at its place in the list. Dimensions have
// their values from the arrays. Errors: of the program (its place); an input that is missing, unknown, given twice, of
// another dtype or shape than the program says; a dimension with two values or none; a wanted result that is none; what
// the kernels do not run.
Result<Computation> prepare(const ComputeRequest& request, const std::vector<ArrayType>& inputs);

// d[…, m, n] = a[…, m, k] * b[…, k, n], without a plan: two axes at least, what leads them the same in d and in each of
// a, b that has more than two. f32, bf16, f16 with sums in f32, int8 with sums in int32 (b as a, d as a, f32, or int32
// of int8). Sizes may be 0; k = 0 writes zeros. Strides of a and b that the kernels do not walk are copied first.
// Errors: as a Computation's.
Status matmul(const ArrayView& a, const ArrayView& b, const ArrayView& d, int threads = 0);

// The same in a CUDA device's memory: which kernels multiply these arrays. What was chosen is kept, so that arrays of
// the same sizes, strides and alignment cost a look-up. bf16, f16 or f32.
class MatmulOnDevice {
 public:
  // Errors: as matmul()'s; an operand that reads() says no of; no device of that number.
  static Result<MatmulOnDevice> make(int device, const ArrayView& a, const ArrayView& b, const ArrayView& d);
  // Whether kernels walk an operand that lies so; they do where it is row-major.
  static bool reads(const ArrayView& operand);

  std::int64_t scratch_bytes() const;
  // As Computation::queue().
  Status queue(CUstream_st* stream, void* scratch) const;

  struct Parts;  // the library's own
  explicit MatmulOnDevice(std::shared_ptr<const Parts> parts, const ArrayView& a, const ArrayView& b,
                          const ArrayView& d)
      : parts_(std::move(parts)), a_(a.data), b_(b.data), d_(d.data) {}

 private:
  std::shared_ptr<const Parts> parts_;
  void *a_, *b_, *d_;
};

// A gated layer of a training step in a CUDA device's memory: y = u * gelu(g), where u and g are the halves of
// h = x[rows, width] * w[2*hidden, width]^T + b[2*hidden], and its gradients. bf16 or f16 with sums in f32, all of one
// type, row-major without gaps, at multiples of 16 bytes. What was planned is kept for the next layer of these sizes.
class GegluOnDevice {
 public:
  struct Sizes {
    std::int64_t rows = 0, hidden = 0, width = 0;
    DType dtype = DType::bf16;
    bool has_bias = false;
    // Forward writes h and backward reads it. Else backward makes it again, of some hidden columns at once: a third
    // more arithmetic in a third of h's memory.
    bool keeps_h = false;
    bool operator==(const Sizes&) const = default;
  };
  // Errors: sizes that no kernel takes; no device of that number.
  static Result<GegluOnDevice> make(int device, const Sizes& sizes);

  struct Forward {
    const void *x = nullptr, *w = nullptr, *b = nullptr;
    void *y = nullptr, *h = nullptr;
  };
  struct Backward {
    const void *x = nullptr, *w = nullptr, *b = nullptr, *dy = nullptr, *h = nullptr;
    void *dx = nullptr, *dw = nullptr, *db = nullptr;
  };
  // Beside operands, at a multiple of 256.
  std::int64_t forward_scratch_bytes() const;
  std::int64_t backward_scratch_bytes() const;
  // As Computation::queue(). h is not written by backward. Errors: an address that is null or no multiple of 16.
  Status queue(CUstream_st* stream, const Forward& arrays, void* scratch) const;
  Status queue(CUstream_st* stream, const Backward& arrays, void* scratch) const;

  struct Parts;  // the library's own
  explicit GegluOnDevice(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

 private:
  std::shared_ptr<const Parts> parts_;
};

// Attention of a training step in a CUDA device's memory: o = softmax(scale * q * k^T) * v in each head, and its
// gradients. q[heads, rows, width], k and v[heads, keys, width], o as q, lse[heads, rows] in f32: ln of the sum of a
// row's exponentials. Otherwise as GegluOnDevice.
class AttentionOnDevice {
 public:
  struct Sizes {
    std::int64_t heads = 0, rows = 0, keys = 0, width = 0;
    DType dtype = DType::bf16;
    bool causal = false;  // row i sees keys up to i
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

  struct Parts;  // the library's own
  explicit AttentionOnDevice(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

 private:
  std::shared_ptr<const Parts> parts_;
};

}  // namespace ridge

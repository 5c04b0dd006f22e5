// What the kernels can be asked to do, as plain structs that say nothing of how. plan/ lowers statements to these;
// kernels/ executes them. No CUDA, no templates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"

namespace ridge::kernels {

// A matrix in memory: element (r, c) of batch i lies at data + i*batch_stride + r*row_stride + c*col_stride, in
// elements. One of row_stride, col_stride is 1 (or the extent along it is at most 1). batch_stride 0: one matrix serves
// all.
struct MatrixLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
  bool operator==(const MatrixLayout&) const = default;
};

// D[i] = A[i] * B[i] for i < batch: A is m x k, B is k x n, D is m x n. Sizes may be 0 (k = 0 writes zeros).
// Which dtypes: matmul_call.h.
struct MatmulProblem {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  MatrixLayout a, b, d;
  bool operator==(const MatmulProblem&) const = default;
};

// A pointwise program over an index space of extents[0] x … x extents[last] (row-major, last contiguous).
// It runs in blocks that stay in the L1; no intermediate goes to memory.
enum class ChainOp {
  load,
  constant,
  store,  // load/store: `slot` indexes ChainProgram::tensors
  add,
  subtract,
  multiply,
  divide,
  negate,
  exp,
  log,
  cos,
  sin,
  gelu,
  gelu_tanh,
  silu,
  relu,
  sigmoid,
  tanh,
  sqrt,
  rsqrt,
  abs,
  max,
  min,
  where,
  less,  // comparisons: 1 or 0
  less_equal,
  equal,
};

struct ChainTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;  // one an axis of the index space, in elements; 0: broadcast along it
};

struct ChainStep {  // register[result] = op(register[a], register[b], register[c]), f32
  ChainOp op;
  int result = 0, a = 0, b = 0, c = 0;
  int slot = 0;        // load, store
  float constant = 0;  // constant
  int repeat = 1;      // unary operations: how often
};

struct ChainProgram {
  std::vector<std::int64_t> extents;
  std::vector<ChainTensor> tensors;
  std::vector<ChainStep> steps;
  int registers = 0;
};

// Products in one kernel with what becomes of them: the sums of A * B, or of A * B and A * C side by side, go through a
// chain where they are made and never to memory. y = (x*up + bu) * gelu(x*gate + bg) is one such kernel.
struct FusedMatmul {
  MatmulProblem product;               // A * B; its D is not looked at
  std::optional<MatrixLayout> second;  // C, of B's size and dtype
  // Over {batch, m, n}. Tensors 0 and, where there is a second product, 1 are the sums: f32, only loaded, their strides
  // not looked at.
  ChainProgram chain;
  int products() const { return second ? 2 : 1; }
};

// A function of each row of a matrix, sums in f32. softmax: e^(x - max) / sum; rmsnorm: x / sqrt(mean(x^2) + epsilon),
// times weight[column]. Stored as f32, bf16 or f16. Sizes may be 0. Rows do not see each other: a NaN stays in its row.
enum class RowFunction { softmax, rmsnorm };

struct RowLayout {
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;  // in elements; a row's elements lie side by side
  bool operator==(const RowLayout&) const = default;
};

struct RowProblem {
  RowFunction function = RowFunction::softmax;
  std::int64_t rows = 0, columns = 0;
  RowLayout x, y;
  DType weight = DType::f32;  // rmsnorm
  float epsilon = 1e-5f;      // rmsnorm
  bool operator==(const RowProblem&) const = default;
};

// y at each point of the kept axes is the sum (mean, largest, least) of x along the reduced ones. A NaN among them is
// the answer. Strides in elements.
enum class ReduceFunction { sum, mean, max, min };

struct ReduceAxis {
  std::int64_t extent = 1, x_stride = 0, y_stride = 0;  // y_stride: kept axes only
  bool operator==(const ReduceAxis&) const = default;
};

struct ReduceProblem {
  ReduceFunction function = ReduceFunction::sum;
  DType x = DType::f32, y = DType::f32;
  std::vector<ReduceAxis> kept, reduced;
  bool operator==(const ReduceProblem&) const = default;
};

}  // namespace ridge::kernels

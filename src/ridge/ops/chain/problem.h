// Defines a pointwise program independently of its implementation. plan/ lowers statements to such programs.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/function.h"

namespace ridge::ops {

using ChainOp = Function;  // An elementwise function, load, store or constant.

struct ChainTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;  // One per axis of the index space, in elements; 0 broadcasts.
};

struct ChainStep {  // register[result] = op(register[a], register[b], register[c]) in f32.
  ChainOp op;
  int result = 0, a = 0, b = 0, c = 0;
  int slot = 0;        // Index of the tensor that `load` or `store` accesses.
  float constant = 0;  // Value of op `constant`.
  int repeat = 1;      // Number of times that a unary function is applied.
};

// A pointwise program over an index space of extents[0] x ... x extents[last] (row-major). No intermediate goes to
// memory.
struct ChainProgram {
  std::vector<std::int64_t> extents;
  std::vector<ChainTensor> tensors;
  std::vector<ChainStep> steps;
  int registers = 0;  // Number of registers.
};

}  // namespace ridge::ops

// A pointwise program as a plain struct, independent of its implementation. plan/ lowers statements to it.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/function.h"

namespace ridge::ops {

// A pointwise program over an index space of extents[0] x ... x extents[last] (row-major). It runs in blocks that stay
// in the L1; no intermediate goes to memory.
using ChainOp = Function;  // Elementwise; load and store use `slot`, an index of ChainProgram::tensors.

struct ChainTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> strides;  // One per axis of the index space, in elements; 0 broadcasts.
};

struct ChainStep {  // register[result] = op(register[a], register[b], register[c]) in f32.
  ChainOp op;
  int result = 0, a = 0, b = 0, c = 0;
  int slot = 0;        // For load and store.
  float constant = 0;  // For op `constant`.
  int repeat = 1;      // Number of applications, for unary operations.
};

struct ChainProgram {
  std::vector<std::int64_t> extents;
  std::vector<ChainTensor> tensors;
  std::vector<ChainStep> steps;
  int registers = 0;
};

}  // namespace ridge::ops

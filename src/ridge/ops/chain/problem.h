// A pointwise program as a plain struct that says nothing of how it is computed: plan/ lowers statements to it.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/function.h"

namespace ridge::ops {

// A pointwise program over an index space of extents[0] x … x extents[last] (row-major, last contiguous).
// It runs in blocks that stay in the L1; no intermediate goes to memory.
using ChainOp = Function;  // of each element by itself; load, store: `slot` indexes ChainProgram::tensors

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

}  // namespace ridge::ops

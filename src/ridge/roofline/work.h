// How much a program computes and moves, whatever the machine. FLOPs count a multiply-add as 2 (integer formats
// likewise, there called OPs); a product without a sum, a pointwise operation or a function count 1 an element of the
// result; a repeat counts each time. Bytes are the minimum: each distinct operand read once, the result written once.
//   bf16[B, D] * bf16[D, F] -> bf16[B, F]:  2*B*D*F FLOPs, 2*B*D + 2*D*F + 2*B*F bytes
#pragma once

#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct Work {
  std::string name;            // of the result
  std::string text = {};       // the statement
  bool contraction = false;    // a product with a sum; a product without one is pointwise work
  DType math = DType::f32;     // contraction: the widest operand's dtype; else f32
  Polynomial flops = {};       // FLOP; one term, in which every dimension of the operation occurs
  Polynomial bytes_in = {};    // B, every distinct operand once; int4 makes halves
  Polynomial bytes_out = {};   // B
  Polynomial bytes_sent = {};  // B that each chip of a split program sends; 0: nothing leaves the chip
  Polynomial bytes() const { return bytes_in + bytes_out; }
};

// One Work a statement, in order.
std::vector<Work> count(const Program& program);

}  // namespace ridge

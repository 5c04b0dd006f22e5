// How much a program computes and moves, whatever the machine. FLOPs count a multiply-add as 2 (integer formats
// likewise, there called OPs); a product without a sum, a pointwise operation or a function count 1 an element; a
// repeat counts each time. Bytes are the minimum: each operand read once, the result written once.
//   bf16[B, D] * bf16[D, F] -> bf16[B, F]:  2*B*D*F FLOPs, 2*B*D + 2*D*F + 2*B*F bytes
#pragma once

#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct Work {
  std::string name;  // of the result
  std::string text;  // the statement
  bool contraction = false;
  DType math;            // contraction: the widest operand's dtype; else f32
  Polynomial flops;      // FLOP
  Polynomial bytes_in;   // B, every distinct operand once
  Polynomial bytes_out;  // B
  Polynomial bytes() const { return bytes_in + bytes_out; }
};

// One Work a statement, in order.
std::vector<Work> count(const Program& program);

}  // namespace ridge

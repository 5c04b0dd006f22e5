// Chains of pointwise work, such as repeat(r, cos, x): how much they move as one kernel and as one kernel an
// application, from how many operations an element on they are bound by computing, and below how many elements
// launching takes longer than moving. On an A100 with 1.5 TB/s and 19.5 TFLOP/s an f32 element takes 8 bytes there and
// back, in which 104 FLOPs fit; the 50 that are often quoted count the reading alone, or operations that are no
// multiply-adds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/program/program.h"

namespace ridge {

// FLOPs that one application of a function takes, by its name ("cos"); what is not here takes the machine's number
// (cost_cos), or 1.
using FunctionCosts = std::map<std::string, double>;

struct ChainFunction {
  std::string name;
  std::int64_t applications = 0;  // an element of the result
  double cost = 1;                // FLOPs each
  std::string source;             // "--cost", the machine's source, "counted as 1"
};

// Per element of the result, on the average where an operand is broadcast.
struct Chain {
  std::string name, text;  // the last result; the statements
  std::vector<ChainFunction> functions;
  double flops = 0;                                 // with the costs above
  std::int64_t kernels = 0;                         // one for each application
  double fused_bytes = 0, unfused_bytes = 0;        // B: inputs and result once; every application reads and writes
  double break_even_flops = 0;                      // FLOPs that fit into the fused bytes' time
  bool compute_bound = false;                       // fused
  std::optional<std::int64_t> break_even_repeats;   // of the one function that is repeated: from there compute-bound
  double launch_s = 0;                              // of a kernel
  double fused_elements = 0, unfused_elements = 0;  // below so many, launching takes longer than moving
};

// Each run of pointwise statements in which every one but the last feeds the next and nothing else. Errors: a dimension
// without value where the answer hangs on it, no vector peak, a program without pointwise work.
Result<std::vector<Chain>> chains(const Program& program, const Machine& machine, const Bindings& given,
                                  const FunctionCosts& costs);

}  // namespace ridge

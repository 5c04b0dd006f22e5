// Chains of pointwise operations, such as repeat(r, cos, x): bytes moved by one kernel and by one kernel per
// application, the number of operations from which they are compute-bound, and the number of elements below which
// launches take longer than memory. On an A100 with 1.5 TB/s and 19.5 TFLOP/s, an f32 element moves 8 bytes (read and
// write), which takes as long as 104 FLOPs. The often quoted 50 counts the read alone, or operations that are not
// multiply-adds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/program/program.h"

namespace ridge {

// FLOPs of one application of a function, by its name ("cos"). Others take the machine's number (cost_cos), or 1.
using FunctionCosts = std::map<std::string, double>;

struct ChainFunction {
  std::string name;
  std::int64_t applications = 0;  // Applications per element of the result
  double cost = 1;                // FLOPs of one application
  std::string source;             // Source of the cost: "--cost", the machine's source, "counted as 1"
};

// Quantities per element of the result, averaged if an operand is broadcast.
struct PointwiseChain {
  std::string name, text;  // Name of the last result; text of the statements
  std::vector<ChainFunction> functions;
  std::vector<std::string> stored = {};  // Outputs of the program before the last result: also written
  double flops = 0;                      // FLOPs at the costs above
  std::int64_t kernels = 0;              // One kernel for each application
  double fused_bytes = 0,
         unfused_bytes = 0;     // Bytes: inputs, result, `stored` once; every application reads and writes
  double break_even_flops = 0;  // FLOPs that take as long as the fused bytes
  bool compute_bound = false;   // True if the fused kernel is compute-bound
  std::optional<std::int64_t> break_even_repeats;   // Repeats from which the chain is compute-bound
  double launch_s = 0;                              // Seconds of a kernel launch
  double fused_elements = 0, unfused_elements = 0;  // Elements below which launches take longer than memory
};

// Analyzes each run of pointwise statements in which only the next statement reads a result, also an output. Errors: a
// required dimension without a value, no vector peak, a program without pointwise work.
Result<std::vector<PointwiseChain>> analyze_chains(const Program& program, const Machine& machine,
                                                   const Bindings& given, const FunctionCosts& costs);

}  // namespace ridge

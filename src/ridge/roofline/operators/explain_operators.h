// Predicts operators whose sizes are numbers, such as those of a model file or of a profiler's trace. They have no
// statements: their FLOPs and bytes are given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/roofline/prediction.h"

namespace ridge {

struct CountedCalls {
  Function function;
  Count count = 0;
};

// Work of one call, with the conventions of work.h.
struct OperatorWork {
  std::string name;                       // Name in reports: "MatMul 128x768 * 768x3072"
  std::string text = {};                  // Longer description
  std::int64_t calls = 1;                 // Number of equal calls, each a kernel
  bool contraction = false;               // True if a matrix unit can compute it
  DType math = DType::f32;                // Dtype of its arithmetic
  Count flops = 0;                        // FLOPs of one call
  Count bytes_in = 0, bytes_out = 0;      // Bytes of one call; their sum is at least 1
  std::vector<CountedCalls> costly = {};  // Calls of functions that take longer than their FLOPs, in one call
};

// Limit on the FLOPs, and on the bytes, of all operators together.
inline constexpr Count max_operator_work = Count{1} << 62;

// Returns a prediction for each operator, with the work and the time of all its calls, and their total; no thresholds.
// Errors: the machine lacks its bandwidth or the peak of a contraction; the sums exceed `max_operator_work`.
Result<Explanation> explain_operators(const std::vector<OperatorWork>& operators, const Machine& machine);

}  // namespace ridge

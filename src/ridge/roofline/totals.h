// Predicts a whole program: either its operations run in sequence and store every result, or one fused kernel moves
// only the program's inputs and outputs.
#pragma once

#include <optional>
#include <vector>

#include "ridge/roofline/roofs.h"
#include "ridge/roofline/sizes/counted_program.h"

namespace ridge {

// FLOPs of all operations, converted to the first operation's peak rate. `peak` is 0 if no peak is known or if the
// ratio of two peaks is not a fraction of whole numbers.
struct NormalizedFlops {
  Polynomial flops;
  double peak = 0;  // FLOP/s
};
NormalizedFlops normalize_flops(const std::vector<Prediction>& ops);

Result<Prediction> sum_operations(const std::vector<Prediction>& ops, const RooflineContext& context);

// Returns nullopt if the program has no intermediate. `work` holds the work of the operations in `unfused`.
Result<std::optional<Prediction>> predict_fused(const Program& program, const std::vector<Work>& work,
                                                const Explanation& unfused, const RooflineContext& context);

// Returns the context of predictions without thresholds and formulas. Errors: the machine lacks its bandwidth.
Result<RooflineContext> make_kernel_context(const CountedProgram& counted, const Machine& machine);

}  // namespace ridge

// Work and reads of the operations in program/routine.h.
//   conv     2 FLOPs for each weight of a window inside the input; padding is not multiplied
//   conv_transpose   2 FLOPs for each input element and weight whose product is inside the result
//   gather   0; reads a row of the table for each index, as if all indices were different, but no row twice
//   scatter  1 FLOP for each element that is added
//   cumsum   1 FLOP per element
//   topk     1 FLOP per element that is compared; so do argmax, sort and argsort
//   rotary   3 FLOPs per element, and a cosine and a sine for each position and pair
//   max_pool 1 FLOP for each element of a window inside the input; so does avg_pool
//   routed   2 FLOPs for each index and element of its expert; reads the experts that some index names once
#pragma once

#include <functional>
#include <vector>

#include "ridge/roofline/masks.h"
#include "ridge/roofline/work.h"

namespace ridge {

// Returns the elements along axes on one device times a factor.
using ElementCounter = std::function<Polynomial(const std::vector<Axis>& axes, Rational each)>;

struct RoutineWork {
  Polynomial flops = {}, flops_without_masks = {};  // FLOPs; the same with the padding multiplied
  bool contraction = false;                         // True if a matrix unit can compute it
  std::vector<TensorRead> elements_read = {};       // Reads of each operand
};

RoutineWork count_routine_work(const Program& program, const Expression& routine, const ProgramMasks& masks,
                               const StatementMasks& masked, const ElementCounter& elements);

}  // namespace ridge

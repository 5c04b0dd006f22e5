// What a word of program/routine.h computes and reads.
//   conv     2 FLOPs for each weight of a window inside of the input: at the edges the padding is not multiplied
//   gather   none; a row of the table for each index, as if no two were alike
//   scatter  1 for each element that is added
//   cumsum   1 an element
//   topk     1 an element that is looked at
//   routed   2 for each index and each element of its expert's part; the weights of experts that some index names, once
#pragma once

#include <functional>
#include <vector>

#include "ridge/roofline/masks.h"

namespace ridge {

// How many elements a device has along these axes, times a factor; and what part of a split dimension's it has.
struct Elements {
  std::function<Polynomial(const std::vector<Axis>& axes, Rational each)> of;
  std::function<Rational(const std::vector<Axis>& axes)> part;
};

// What is read of a tensor.
struct Read {
  int tensor = 0;
  Polynomial amount;  // elements, or bytes
  int by = -1;        // the indices that pick it; -1: it is where it is whatever is read
};
// Of one tensor, of which `whole` is all: what is read alike once; what different indices pick side by side.
Polynomial together(const std::vector<Read>& reads, const Polynomial& whole);

struct RoutineWork {
  Polynomial flops = {}, unmasked = {};  // unmasked: with the padding multiplied
  bool contraction = false;              // multiplied by what multiplies matrices
  std::vector<Read> elements_read = {};  // of each operand
};

RoutineWork routine_work(const Program& program, const Expression& routine, const Masks& masks,
                         const MaskedStatement& masked, const Elements& elements);

}  // namespace ridge

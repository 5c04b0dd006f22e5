// Recognises sums across rows of what a norm leaves, however they are spelled: the gradient of a norm's weight,
//
//   r[N] = rsqrt(mean(x * x over D) + 1e-5)     h[N, D] = x * r     dw[D] = dy * h
//
// is one kernel that reads x and dy, whoever else wants r and h. A product of two tensors is one as well.
#pragma once

#include <optional>
#include <vector>

#include "ridge/ops/rows/problem.h"
#include "ridge/plan/fuse.h"
#include "ridge/plan/shape.h"

namespace ridge {

struct FoundAcross {
  std::vector<int> statements;  // sorted; the last one is the sum
  ops::RowProblem problem;
  int x = -1, dy = -1, y = -1;  // of Program::tensors
};

// `statement`: a sum. Nothing: it is no such sum, or the target has no kernel for it.
std::optional<FoundAcross> find_across(const Program& program, const std::vector<Shape>& shapes, int statement,
                                       Target target);

}  // namespace ridge

// The linear equations of one step of a least-squares fit.
#pragma once

#include <cstddef>
#include <vector>

namespace ridge {

// The equations matrix * x = right of `count` unknowns; `matrix` is symmetric and has its lower triangle.
struct NormalEquations {
  std::vector<double> matrix, right;
  std::size_t count = 0;
};

// Solves by Cholesky decomposition. `damping` is the part of the diagonal that is added to it (Levenberg).
std::vector<double> solve(NormalEquations equations, double damping);

}  // namespace ridge

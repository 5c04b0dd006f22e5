#include "ridge/base/normal_equations.h"

#include <cmath>

namespace ridge {

std::vector<double> solve(NormalEquations x, double damping) {
  const std::size_t n = x.count;
  const auto at = [&](std::size_t i, std::size_t j) -> double& { return x.matrix[i * n + j]; };
  for (std::size_t i = 0; i < n; ++i) at(i, i) *= 1 + damping;
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) at(j, j) -= at(j, k) * at(j, k);
    at(j, j) = std::sqrt(at(j, j));
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
      at(i, j) /= at(j, j);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) x.right[i] -= at(i, k) * x.right[k];
    x.right[i] /= at(i, i);
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x.right[i] -= at(k, i) * x.right[k];
    x.right[i] /= at(i, i);
  }
  return x.right;
}

}  // namespace ridge

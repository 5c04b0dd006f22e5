// The slow, obvious product that every kernel is held against: one loop nest in f64. A sum of k products of f32 has a
// rounding error of at most about k * 2^-24 * sum |a||b|, so the reference also gives that sum: what a correct kernel
// may differ by is known, not guessed (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
#pragma once

#include <vector>

#include "ridge/ops/product/problem.h"

namespace ridge::ops {

struct ReferenceElement {
  double value = 0;      // sum of a * b
  double magnitude = 0;  // sum of |a| * |b|
};

// Element (row, col) of D[batch]; the operands lie as the problem says.
ReferenceElement reference_element(const MatmulProblem& problem, const void* a, const void* b, std::int64_t batch,
                                   std::int64_t row, std::int64_t col);

// Element (row, col) of matrix `batch`.
double read_element(const MatrixLayout& layout, const void* data, std::int64_t batch, std::int64_t row,
                    std::int64_t col);
void write_element(const MatrixLayout& layout, void* data, std::int64_t batch, std::int64_t row, std::int64_t col,
                   double value);

// How far a correct kernel's element may lie from the reference: sums in f32, then rounded to D's format.
double matmul_bound(const MatmulProblem& problem, const ReferenceElement& element);

}  // namespace ridge::ops

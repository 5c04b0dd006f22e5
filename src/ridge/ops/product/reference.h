// Reference implementation of products in f64, which all kernels are compared with. An f32 sum of k products has a
// rounding error of at most about k * 2^-24 * sum |a||b| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1),
// so the reference also returns sum |a||b|, from which the error bound of a correct kernel follows.
#pragma once

#include <vector>

#include "ridge/ops/product/problem.h"
#include "ridge/tile/epilogue.h"

namespace ridge::ops {

struct ReferenceElement {
  double value = 0;      // sum of a * b
  double magnitude = 0;  // sum of |a| * |b|
};

// Returns element (row, col) of D[batch].
ReferenceElement reference_element(const MatmulProblem& problem, const void* a, const void* b, std::int64_t batch,
                                   std::int64_t row, std::int64_t col);

// Read and write element (row, col) of matrix `batch`.
double read_element(const MatrixLayout& layout, const void* data, std::int64_t batch, std::int64_t row,
                    std::int64_t col);
void write_element(const MatrixLayout& layout, void* data, std::int64_t batch, std::int64_t row, std::int64_t col,
                   double value);

// Returns the activation of an epilogue in f64.
double apply_activation(tile::EpilogueActivation activation, double y);

// Returns the error bound of an element that is summed in f32 and rounded to D's format.
double matmul_error_bound(const MatmulProblem& problem, const ReferenceElement& element);

}  // namespace ridge::ops

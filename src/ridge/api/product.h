// Shapes, layouts and checks of the arrays of a matrix product, on a CPU or a device.
#pragma once

#include <optional>

#include "ridge/compute.h"
#include "ridge/ops/product/cpu.h"

namespace ridge::api {

// Checks that shapes and dtypes match, that no address is null, and that d is row-major and does not overlap a and b.
Status check_product(const ArrayView& a, const ArrayView& b, const ArrayView& d);
Status check_product(const ArrayView& a, const BlockScaledWeights& b, const ArrayView& d);
bool is_empty(const ArrayView& array);

// Returns the layout of an operand for the kernels, or nullopt if they do not support its strides or alignment.
std::optional<ops::MatrixLayout> layout_for_kernels(const ArrayView& operand);
ops::MatrixLayout row_major_layout(const ArrayView& operand);

// Returns the problem for arrays that `check_product` accepted.
ops::MatmulProblem make_problem(const ops::MatrixLayout& a, const ops::MatrixLayout& b, const ArrayView& left,
                                const ArrayView& d);

}  // namespace ridge::api

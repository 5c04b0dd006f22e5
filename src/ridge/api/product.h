// What the arrays of a product say, wherever they lie. Internal to api/.
#pragma once

#include <optional>

#include "ridge/compute.h"
#include "ridge/ops/product/cpu.h"

namespace ridge::api {

// Sizes and types that belong together; memory behind what is read and written; d row-major and apart from a and b.
Status check_product(const ArrayView& a, const ArrayView& b, const ArrayView& d);
bool is_empty(const ArrayView& array);

// How kernels walk an operand; none: it lies as no kernel walks it.
std::optional<ops::MatrixLayout> walked(const ArrayView& operand);
ops::MatrixLayout plain_layout(const ArrayView& operand);

// The arrays were checked.
ops::MatmulProblem problem_of(const ops::MatrixLayout& a, const ops::MatrixLayout& b, const ArrayView& left,
                              const ArrayView& d);

}  // namespace ridge::api

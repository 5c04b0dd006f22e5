// A tensor's axes with extents and strides, keyed by dimension. Literal axes of extent 1 have no key, since they do not
// affect addresses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct SizedAxis {
  std::string dim;                      // dimension; "n" for a literal extent n > 1, "n#1" for its first repetition
  std::int64_t extent = 1, stride = 0;  // in elements
};

using Shape = std::vector<SizedAxis>;  // in the order of the tensor's axes, outermost first

// Returns the name of an axis in a Shape: its dimension, a literal size with the number of its repetition, or empty for
// a literal 1.
std::string axis_key(const Axis& axis);

// Returns the row-major shape of a tensor. Errors: a dimension without a value; more than 2^63 - 1 bytes.
Result<Shape> make_shape(const Tensor& tensor, const Bindings& dims);
std::int64_t count_elements(const Shape& shape);

// Returns the axis of `dim`, or one with extent 1 and stride 0 if the tensor lacks it.
SizedAxis axis_along(const Shape& shape, const std::string& dim);
bool has_axis(const Shape& shape, const std::string& dim);
// Returns the product of the extents along some dimensions.
std::int64_t extent_along(const Shape& shape, const std::vector<std::string>& dims);

// Returns the dimensions in another order, with the strides of contiguous memory.
Shape contiguous_shape(const Shape& shape, const std::vector<std::string>& order);

// Returns the one stride that addresses a group of dimensions with the last one fastest: the stride of the innermost
// axis, or 0 if all extents are 1. Returns nullopt if there is no such stride.
std::optional<std::int64_t> merged_stride(const Shape& shape, const std::vector<std::string>& group);

std::string format_shape(const Shape& shape);  // "[F, D]"

// Returns a + b, or INT64_MAX if the sum exceeds it.
inline std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

}  // namespace ridge

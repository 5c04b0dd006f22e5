// A tensor's axes with their extents and strides, keyed by dimension. Literal axes of extent 1 have no key: they do not
// move the pointer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct SizedAxis {
  std::string dim;                      // a literal extent n > 1 is "n"
  std::int64_t extent = 1, stride = 0;  // stride in elements
};

using Shape = std::vector<SizedAxis>;  // as the tensor's axes, outermost first

// What an axis is called in a Shape: its dimension, a literal size, or empty where it has one element.
std::string shape_key(const Axis& axis);

// Row-major. Errors: a dimension without a value; more than 2^63 - 1 bytes.
Result<Shape> shape(const Tensor& tensor, const Bindings& dims);
std::int64_t elements(const Shape& shape);

// The extent and stride along `dim`: 1 and 0 where the tensor lacks it.
SizedAxis along(const Shape& shape, const std::string& dim);
bool has(const Shape& shape, const std::string& dim);

// The same dimensions in another order, contiguous.
Shape packed(const Shape& shape, const std::vector<std::string>& order);

// One stride for a group of dimensions walked with the last one fastest: the stride of the innermost axis, 0 where all
// extents are 1; nothing where the memory does not allow it.
std::optional<std::int64_t> merged_stride(const Shape& shape, const std::vector<std::string>& group);

std::string text(const Shape& shape);  // "[F, D]"

}  // namespace ridge

#include "ridge/plan/shape.h"

#include <fmt/format.h>

namespace ridge {

std::string axis_key(const Axis& axis) {
  if (axis.is_named()) return axis.dim;
  if (axis.literal <= 1) return "";
  return axis.repetition == 0 ? std::to_string(axis.literal) : fmt::format("{}#{}", axis.literal, axis.repetition);
}

Result<Shape> make_shape(const Tensor& tensor, const Bindings& dims) {
  Polynomial size(1);
  Shape out;
  for (const Axis& axis : tensor.axes) {
    RIDGE_TRY(extent, axis.extent().evaluate(dims));
    out.push_back({axis_key(axis), extent, 0});
    size = size * axis.extent();
  }
  // Checks for overflow with the widest element, 64 bits.
  RIDGE_TRY_STATUS((size * Polynomial(8)).evaluate(dims));
  std::int64_t stride = 1;
  for (auto axis = out.rbegin(); axis != out.rend(); ++axis) {
    axis->stride = stride;
    stride *= axis->extent;
  }
  return out;
}

std::int64_t count_elements(const Shape& shape) {
  std::int64_t n = 1;
  for (const SizedAxis& axis : shape) n *= axis.extent;
  return n;
}

SizedAxis axis_along(const Shape& shape, const std::string& dim) {
  for (const SizedAxis& axis : shape)
    if (axis.dim == dim) return axis;
  return {dim, 1, 0};
}

std::int64_t extent_along(const Shape& shape, const std::vector<std::string>& dims) {
  std::int64_t extent = 1;
  for (const std::string& dim : dims) extent *= axis_along(shape, dim).extent;
  return extent;
}

bool has_axis(const Shape& shape, const std::string& dim) {
  for (const SizedAxis& axis : shape)
    if (axis.dim == dim) return true;
  return false;
}

Shape contiguous_shape(const Shape& shape, const std::vector<std::string>& order) {
  Shape out;
  for (const std::string& dim : order) out.push_back(axis_along(shape, dim));
  std::int64_t stride = 1;
  for (auto axis = out.rbegin(); axis != out.rend(); ++axis) {
    axis->stride = stride;
    stride *= axis->extent;
  }
  return out;
}

std::optional<std::int64_t> merged_stride(const Shape& shape, const std::vector<std::string>& group) {
  std::int64_t innermost = 0, next = 0;  // next: the stride that the next outer axis must have
  for (auto dim = group.rbegin(); dim != group.rend(); ++dim) {
    const SizedAxis axis = axis_along(shape, *dim);
    if (axis.extent == 1) continue;
    if (next == 0)
      innermost = axis.stride;
    else if (axis.stride != next)
      return std::nullopt;
    next = axis.stride * axis.extent;
  }
  return innermost;
}

std::string format_shape(const Shape& shape) {
  std::string out = "[";
  for (const SizedAxis& axis : shape) {
    if (out.size() > 1) out += ", ";
    out += axis.dim.empty() ? "1" : axis.dim.substr(0, axis.dim.find('#'));
  }
  return out + "]";
}

}  // namespace ridge

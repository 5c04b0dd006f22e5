#include "ridge/api/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ridge/base/text.h"

namespace ridge::api {
namespace {

std::int64_t bytes_each(DType dtype) { return bits(dtype) / 8; }

std::vector<std::int64_t> strides_of(const ArrayView& view) {
  if (!view.strides.empty()) return {view.strides.begin(), view.strides.end()};
  std::vector<std::int64_t> out(view.shape.size(), 1);
  for (std::size_t axis = view.shape.size(); axis-- > 1;) out[axis - 1] = out[axis] * view.shape[axis];
  return out;
}

// Writes elements one behind the other.
class Gather {
 public:
  Gather(const ArrayView& view, std::byte* to)
      : shape_(view.shape), strides_(strides_of(view)), size_(bytes_each(view.dtype)), to_(to) {}

  void from(const std::byte* data, std::size_t axis = 0) {
    if (axis == shape_.size()) return append(data, 1);
    if (axis + 1 == shape_.size() && strides_[axis] == 1) return append(data, shape_[axis]);
    for (std::int64_t i = 0; i < shape_[axis]; ++i) from(data + i * strides_[axis] * size_, axis + 1);
  }

 private:
  void append(const std::byte* data, std::int64_t elements) {
    std::memcpy(to_, data, static_cast<std::size_t>(elements * size_));
    to_ += elements * size_;
  }

  std::span<const std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
  std::int64_t size_;
  std::byte* to_;
};

struct Extent {
  std::uintptr_t first = 0, last = 0;
};
Extent extent_of(const ArrayView& view) {
  const std::vector<std::int64_t> strides = strides_of(view);
  std::int64_t low = 0, high = 0;
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    const std::int64_t reach = strides[axis] * (view.shape[axis] - 1);
    if (view.shape[axis] == 0) return {};
    low += std::min<std::int64_t>(reach, 0);
    high += std::max<std::int64_t>(reach, 0);
  }
  const std::int64_t size = bytes_each(view.dtype);
  const auto at = reinterpret_cast<std::uintptr_t>(view.data);
  return {at + static_cast<std::uintptr_t>(low * size), at + static_cast<std::uintptr_t>((high + 1) * size)};
}

}  // namespace

bool is_plain(const ArrayView& view) {
  if (reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(bytes_each(view.dtype)) != 0)
    return false;
  std::int64_t stride = 1;
  for (std::size_t axis = view.strides.size(); axis-- > 0; stride *= view.shape[axis])
    if (view.shape[axis] != 1 && view.strides[axis] != stride) return false;
  return true;
}

bool overlap(const ArrayView& a, const ArrayView& b) {
  const Extent of_a = extent_of(a), of_b = extent_of(b);
  return of_a.first < of_b.last && of_b.first < of_a.last;
}

Error no_memory(std::int64_t bytes) {
  return input_error(fmt::format("the system refused {} of memory", engineering(static_cast<double>(bytes), "B")));
}

Result<ArrayStorage> plain_copy(const ArrayView& view) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : view.shape) elements *= extent;
  auto out = ArrayStorage::make(view.dtype, elements);
  if (!out) return no_memory(elements * bytes_each(view.dtype));
  if (elements > 0) Gather(view, out->array().data).from(static_cast<const std::byte*>(view.data));
  return *std::move(out);
}

}  // namespace ridge::api

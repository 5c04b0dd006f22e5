#include "ridge/api/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ridge/base/string_util.h"

namespace ridge::api {
namespace {

std::int64_t element_bytes(DType dtype) { return dtype_bits(dtype) / 8; }

std::vector<std::int64_t> effective_strides(const ArrayView& view) {
  if (!view.strides.empty()) return {view.strides.begin(), view.strides.end()};
  std::vector<std::int64_t> out(view.shape.size(), 1);
  for (std::size_t axis = view.shape.size(); axis-- > 1;) out[axis - 1] = out[axis] * view.shape[axis];
  return out;
}

// Copies a strided array to contiguous memory.
class StridedCopy {
 public:
  StridedCopy(const ArrayView& view, std::byte* to)
      : shape_(view.shape), strides_(effective_strides(view)), size_(element_bytes(view.dtype)), to_(to) {}

  void copy_from(const std::byte* data, std::size_t axis = 0) {
    if (axis == shape_.size()) return append_elements(data, 1);
    if (axis + 1 == shape_.size() && strides_[axis] == 1) return append_elements(data, shape_[axis]);
    for (std::int64_t i = 0; i < shape_[axis]; ++i) copy_from(data + i * strides_[axis] * size_, axis + 1);
  }

 private:
  void append_elements(const std::byte* data, std::int64_t elements) {
    std::memcpy(to_, data, elements * size_);
    to_ += elements * size_;
  }

  std::span<const std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
  std::int64_t size_;
  std::byte* to_;
};

struct AddressRange {
  std::uintptr_t first = 0, last = 0;
};
AddressRange address_range(const ArrayView& view) {
  const std::vector<std::int64_t> strides = effective_strides(view);
  std::int64_t low = 0, high = 0;
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    const std::int64_t offset = strides[axis] * (view.shape[axis] - 1);
    if (view.shape[axis] == 0) return {};
    low += std::min<std::int64_t>(offset, 0);
    high += std::max<std::int64_t>(offset, 0);
  }
  const std::int64_t size = element_bytes(view.dtype);
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  return {address + static_cast<std::uintptr_t>(low * size), address + static_cast<std::uintptr_t>((high + 1) * size)};
}

}  // namespace

bool is_row_major(const ArrayView& view) {
  if (reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(element_bytes(view.dtype)) != 0)
    return false;
  std::int64_t stride = 1;
  for (std::size_t axis = view.strides.size(); axis-- > 0; stride *= view.shape[axis])
    if (view.shape[axis] != 1 && view.strides[axis] != stride) return false;
  return true;
}

bool has_overlap(const ArrayView& a, const ArrayView& b) {
  const AddressRange range_a = address_range(a), range_b = address_range(b);
  return range_a.first < range_b.last && range_b.first < range_a.last;
}

Error out_of_memory_error(std::int64_t bytes) {
  return input_error(
      fmt::format("the system refused {} of memory", format_with_prefix(static_cast<double>(bytes), "B")));
}

Result<ArrayStorage> copy_row_major(const ArrayView& view) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : view.shape) elements *= extent;
  auto out = ArrayStorage::make(view.dtype, elements);
  if (!out) return out_of_memory_error(elements * element_bytes(view.dtype));
  if (elements > 0) StridedCopy(view, out->array().data).copy_from(static_cast<const std::byte*>(view.data));
  return *std::move(out);
}

}  // namespace ridge::api

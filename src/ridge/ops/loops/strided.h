// Elements at a constant stride as contiguous floats, and back. The dtype is dispatched on once for each call.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops {

struct StridedElements {
  DType dtype = DType::f32;  // f32, bf16 or f16
  void* data = nullptr;
  std::int64_t first = 0, stride = 1;  // In elements.
  bool are_floats() const { return dtype == DType::f32 && stride == 1; }
  float* floats() const { return static_cast<float*>(data) + first; }  // Requires `are_floats`.
  StridedElements from(std::int64_t element) const { return {dtype, data, first + element * stride, stride}; }
};

void load_floats(const StridedElements& from, std::int64_t n, float* to);
void store_floats(const float* from, std::int64_t n, const StridedElements& to);

}  // namespace ridge::ops

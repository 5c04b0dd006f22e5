#include "ridge/ops/loops/strided.h"

#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops {

void load_floats(const StridedElements& from, std::int64_t n, float* to) {
  const RowOffsets row{from.first, 0};
  if (from.stride == 1) return copy_rows({from.dtype, DType::f32, from.data, to, n, false, false, {&row, 1}});
  with_stored_type(from.dtype, [&]<class T>() {
    const T* const data = static_cast<const T*>(from.data) + from.first;
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(to_double(data[i * from.stride]));
  });
}

void store_floats(const float* from, std::int64_t n, const StridedElements& to) {
  const RowOffsets row{0, to.first};
  if (to.stride == 1) return copy_rows({DType::f32, to.dtype, from, to.data, n, false, false, {&row, 1}});
  with_stored_type(to.dtype, [&]<class T>() {
    T* const data = static_cast<T*>(to.data) + to.first;
    for (std::int64_t i = 0; i < n; ++i) data[i * to.stride] = round_to<T>(from[i]);
  });
}

}  // namespace ridge::ops

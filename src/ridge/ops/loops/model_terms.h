// Terms of the predictions for loops on CPUs and on devices.
#pragma once

#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge::ops {

inline double real(std::int64_t x) { return static_cast<double>(x); }
inline double bytes_of(DType dtype, double elements) { return elements * bytes_per_element(dtype); }

}  // namespace ridge::ops

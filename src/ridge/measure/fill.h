// Random normal inputs. Element i of a tensor depends on the seed, the tensor's number and i alone, so the same seed
// gives the same data whatever the number of threads: a counter is hashed (SplitMix64, Steele, Lea and Flood 2014) and
// each 16 bits of the hash pick one of 65,536 quantiles of the standard normal distribution (so |x| < 4.4, mean 0,
// variance 1 to four digits), times `deviation`. Rounded to the tensor's dtype, to nearest, ties to even; int8 has
// -4 … 4 whatever the deviation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge {

// One array in memory: `data` holds `elements` of `dtype` (f32, bf16, f16, int8, int32 or
// block-scaled).
struct Array {
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  std::byte* data = nullptr;
};

void fill_normal(const Array& array, std::uint64_t seed, int tensor, int threads, double deviation = 1);
// Whole numbers from 0 to `below` - 1, each as likely, in int32 or int8.
void fill_indices(const Array& array, std::uint64_t seed, int tensor, std::int64_t below);
void poison(const Array& array, int threads);  // all bits set: NaN in every float dtype, -1 in integers

double read(const Array& array, std::int64_t index);  // as stored, exact

}  // namespace ridge

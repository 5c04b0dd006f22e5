// Random normal inputs. Element i of a tensor depends only on the seed, the tensor's number and i, so that the number
// of threads does not matter. A counter is hashed (SplitMix64; Steele, Lea and Flood, 2014), and each 16 bits of the
// hash select one of 65,536 quantiles of the standard normal distribution (|x| < 4.4, mean 0, variance 1 to four
// digits), times `deviation`. Values are rounded to nearest even; int8 gets -4 … 4 whatever the deviation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ridge/base/dtype.h"

namespace ridge {

// Array in memory: `elements` values of `dtype` (f32, bf16, f16, int8, int32 or block-scaled).
struct Array {
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  std::byte* data = nullptr;
};

bool can_fill_normal(DType dtype);
void fill_normal(const Array& array, std::uint64_t seed, int tensor, int threads, double deviation = 1);
// Fills with uniformly distributed integers from 0 to `limit` - 1, in int32 or int8.
void fill_indices(const Array& array, std::uint64_t seed, int tensor, std::int64_t limit);
void poison_array(const Array& array, int threads);  // sets all bits: NaN in float dtypes, -1 in integers

double read_element(const Array& array, std::int64_t index);  // returns the stored value exactly

}  // namespace ridge

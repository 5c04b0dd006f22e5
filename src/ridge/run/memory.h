// Arrays in host memory: how much memory a run may take, storage, and fills with random numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "ridge/base/dtype.h"

namespace ridge {

// Array in memory: `elements` values of `dtype` (f32, bf16, f16, int8, int32 or block-scaled).
struct Array {
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  std::byte* data = nullptr;
};

// Fills with random normal numbers. Element i of a tensor depends only on the seed, the tensor's number and i, so that
// the number of threads does not matter. A counter is hashed (SplitMix64; Steele, Lea and Flood, 2014), and each 16
// bits of the hash select one of 65,536 quantiles of the standard normal distribution (|x| < 4.4, mean 0, variance 1 to
// four digits), times `deviation`. Values are rounded to nearest even; int8 gets -4 … 4 whatever the deviation.
bool can_fill_normal(DType dtype);
void fill_normal(const Array& array, std::uint64_t seed, int tensor, int threads, double deviation = 1);
// Fills with uniformly distributed integers from 0 to `limit` - 1, in int32 or int8.
void fill_indices(const Array& array, std::uint64_t seed, int tensor, std::int64_t limit);
void poison_array(const Array& array, int threads);  // sets all bits: NaN in float dtypes, -1 in integers

double read_element(const Array& array, std::int64_t index);  // returns the stored value exactly

// Returns the memory that a run may take: what the system reports as available, or less if a control group limits the
// process. A container with 4 GiB on a machine with 512 GiB gets 4 GiB less its current use. Returns nullopt if the
// system does not report it.
std::optional<std::int64_t> available_bytes();

// Parses the text of /proc/meminfo.
std::optional<std::int64_t> parse_available_bytes(std::string_view meminfo);

// Storage of one array, aligned to 64 bytes; from 2 MiB on, aligned to 2 MiB and in huge pages.
class ArrayStorage {
 public:
  static std::optional<ArrayStorage> make(DType dtype, std::int64_t elements);
  const Array& array() const { return array_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  Array array_;
};

}  // namespace ridge

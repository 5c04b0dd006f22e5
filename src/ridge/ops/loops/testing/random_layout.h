// Random strides, guarded buffers and single elements for tests of the loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "ridge/base/dtype_set.h"
#include "ridge/ops/product/testing/guarded.h"

namespace ridge::ops::loops_testing {

using product_testing::GuardedBuffer;

// Returns the number of random cases: RIDGE_PROGRAMS, or `in_ci`.
inline unsigned case_count(unsigned in_ci) {
  const char* requested = std::getenv("RIDGE_PROGRAMS");
  return requested == nullptr ? in_ci : static_cast<unsigned>(std::strtoul(requested, nullptr, 10));
}

struct StridedLayout {
  std::vector<std::int64_t> strides;
  std::int64_t elements = 1;  // One more than the largest offset
};

class RandomLayouts {
 public:
  explicit RandomLayouts(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<unsigned>(n)); }
  bool flip() { return below(2) == 0; }
  DType float_dtype() { return std::vector<DType>{DType::f32, DType::bf16, DType::f16}[below(3)]; }

  // Returns strides of a tensor that has the axes whose extent is positive, in a random order or in the given one, with
  // gaps between the lines if it is padded. An extent of 0 stands for an axis that the tensor lacks.
  StridedLayout strides(const std::vector<std::int64_t>& extents, bool is_padded) {
    std::vector<std::size_t> order(extents.size());
    std::iota(order.rbegin(), order.rend(), std::size_t{0});  // The last axis first: its stride is 1
    if (below(3) == 0) std::shuffle(order.begin(), order.end(), random_);
    StridedLayout out{std::vector<std::int64_t>(extents.size()), 1};
    std::int64_t stride = 1;
    for (const std::size_t axis : order) {
      if (extents[axis] == 0) continue;
      out.strides[axis] = stride;
      out.elements += (extents[axis] - 1) * stride;
      stride *= extents[axis];
      if (is_padded && below(4) == 0) stride += below(3);
    }
    return out;
  }

  GuardedBuffer::GuardSide guard_side() { return flip() ? GuardedBuffer::before : GuardedBuffer::after; }
  // Fills a buffer with random values: small integers, so that equal values occur, or fractions.
  void fill_floats(DType dtype, const GuardedBuffer& out, bool small_integers) {
    for (std::int64_t i = 0; i < count(dtype, out); ++i) {
      const auto fraction = static_cast<float>(std::ldexp(static_cast<double>(below(1 << 20) - (1 << 19)), -19));
      store(dtype, out.data(), i, small_integers ? static_cast<float>(below(9) - 4) : fraction);
    }
  }
  void fill_indices(DType dtype, const GuardedBuffer& out, std::int64_t extent) {
    for (std::int64_t i = 0; i < count(dtype, out); ++i) {
      const std::int64_t index = below(extent);
      if (dtype == DType::int8)
        out.as<std::int8_t>()[i] = static_cast<std::int8_t>(index);
      else
        out.as<std::int32_t>()[i] = static_cast<std::int32_t>(index);
    }
  }
  static void store(DType dtype, void* data, std::int64_t i, float value) {
    StoredFloats::dispatch(dtype, [&]<class T>() { static_cast<T*>(data)[i] = round_to<T>(value); });
  }
  static double load(DType dtype, const void* data, std::int64_t i) {
    double out = 0;
    StorageDTypes::dispatch(dtype, [&]<class T>() { out = to_double(static_cast<const T*>(data)[i]); });
    return out;
  }

 private:
  static std::int64_t count(DType dtype, const GuardedBuffer& buffer) {
    return static_cast<std::int64_t>(buffer.size()) * 8 / dtype_bits(dtype);
  }
  std::mt19937 random_;
};

}  // namespace ridge::ops::loops_testing

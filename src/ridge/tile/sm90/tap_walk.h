// How k runs over the operands of a convolution with channels last. k consists of one part for each element of the
// kernel (a tap), and a part of the channels of that tap, padded to whole boxes of the copy engine. The engine has a
// mode for the input ("im2col"): a box holds the channels of successive outputs' pixels for one tap, and elements
// outside of the input are zero.
#pragma once

#include <cstdint>

namespace ridge::tile {

// Division of numbers below 2^31 by a constant, as a multiplication and a shift.
struct Divisor {
  std::uint32_t value = 1, factor = 0, shift = 0;
  Divisor() = default;
  explicit Divisor(std::int64_t divisor) : value(static_cast<std::uint32_t>(divisor)) {
    if (value <= 1) return;
    while ((std::uint64_t{1} << (shift + 1)) < value) ++shift;
    factor = static_cast<std::uint32_t>(((std::uint64_t{1} << (shift + 32)) + value - 1) / value);
  }
#ifdef __CUDACC__
  __device__ __forceinline__ int quotient(int x) const {
    return value == 1 ? x : static_cast<int>(__umulhi(static_cast<std::uint32_t>(x), factor) >> shift);
  }
#endif
};

struct TapWalk {
  int taps = 0, channels = 0;  // 0 taps: k is an axis of a matrix. Channels of one group.
  Divisor depth;               // columns of k for each tap
  int group_rows = 0;          // rows of a group's weights
  // The rest is for pixels. Axes are the outermost first.
  bool has_three_axes = false;
  Divisor kernel[3], out[3];
  int stride[3] = {}, padding[3] = {}, dilation[3] = {};
};

}  // namespace ridge::tile

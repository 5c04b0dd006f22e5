// Counts of the windows of a convolution or a pool along one dimension, whose sizes are numbers.
#pragma once

#include <cstdint>

namespace ridge {

// Windows along one dimension: window o has the elements o * stride + r * dilation - padding, r from 0 to kernel - 1.
struct SizedWindows {
  std::int64_t size = 1;     // Elements of the input, at least 0
  std::int64_t windows = 1;  // Number of windows
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
};

// Returns the number of pairs of a window and an element of it inside the input, without padding. Takes a step for each
// element of a window. The members are at most 2^48, kernel, stride, padding and
// dilation at most 2^20.
__int128 count_window_elements(const SizedWindows& windows);
// Returns the number of elements of the input that are in some window.
std::int64_t count_read_elements(const SizedWindows& windows);

}  // namespace ridge

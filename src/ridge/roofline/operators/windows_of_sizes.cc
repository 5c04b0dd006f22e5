#include "ridge/roofline/operators/windows_of_sizes.h"

#include <algorithm>
#include <vector>

namespace ridge {
namespace {

// Returns the number of multiples of `stride` in [0, windows * stride) that are from `low` to `high`.
std::int64_t count_windows_between(std::int64_t low, std::int64_t high, const SizedWindows& w) {
  const std::int64_t first = low <= 0 ? 0 : (low + w.stride - 1) / w.stride;
  const std::int64_t last = high < 0 ? -1 : std::min(high / w.stride, w.windows - 1);
  return std::max<std::int64_t>(0, last - first + 1);
}

}  // namespace

__int128 count_window_elements(const SizedWindows& w) {
  __int128 out = 0;
  for (std::int64_t r = 0; r < w.kernel; ++r) {
    const std::int64_t offset = r * w.dilation - w.padding;
    out += count_windows_between(-offset, w.size - 1 - offset, w);
  }
  return out;
}

std::int64_t count_read_elements(const SizedWindows& w) {
  if (w.kernel >= w.stride && w.dilation == 1) {  // Windows leave no gaps
    const std::int64_t end = (w.windows - 1) * w.stride + w.kernel - w.padding;
    return w.windows < 1 ? 0 : std::max<std::int64_t>(0, std::min(w.size, end) - std::max<std::int64_t>(0, -w.padding));
  }
  constexpr std::int64_t max_marked = 1 << 22;  // More elements are all counted as read
  if (w.size > max_marked || w.windows > max_marked / std::max<std::int64_t>(1, w.kernel)) return w.size;
  std::vector<bool> is_read(static_cast<std::size_t>(w.size));
  for (std::int64_t o = 0; o < w.windows; ++o)
    for (std::int64_t r = 0; r < w.kernel; ++r)
      if (const std::int64_t at = o * w.stride + r * w.dilation - w.padding; at >= 0 && at < w.size)
        is_read[static_cast<std::size_t>(at)] = true;
  return std::count(is_read.begin(), is_read.end(), true);
}

}  // namespace ridge

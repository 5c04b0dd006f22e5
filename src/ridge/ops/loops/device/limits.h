// Limits of the CUDA kernels of the loops.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ridge::ops::cuda {

inline constexpr int max_device_axes = 12;                                  // Axes that cannot be merged
inline constexpr int max_device_fold_axes = 6;                              // The same for folds, as in fold_kernels.h
inline constexpr std::int64_t max_sorted_elements = std::int64_t{1} << 30;  // Elements of a line or list that is sorted
inline constexpr std::int64_t max_bucketed_targets =
    640 * 1024;  // Rows of a scatter's result without a sort of all rows

// Words of a row that a warp copies in a gather, and the bytes of a word there.
inline constexpr std::int64_t gathered_part_words = 128, widest_gathered_word = 16;
constexpr std::int64_t count_gathered_parts(std::int64_t words) {
  return (words + gathered_part_words - 1) / gathered_part_words;
}
// True if rows of `words` words fill three quarters of the warps that copy their parts.
constexpr bool is_wide_gather(std::int64_t words) {
  return 4 * words >= 3 * count_gathered_parts(words) * gathered_part_words;
}

inline constexpr int max_collected_keys = 2048,
                     max_selected = 1024;               // Keys of a top-k that a block collects; largest count
inline constexpr std::int64_t min_selection_ratio = 4;  // Elements of a line for each one that blocks select

// Returns into how many parts each line is divided, from each of which a block selects `count` elements.
constexpr std::int64_t count_selection_parts(std::int64_t lines, std::int64_t extent, std::int64_t count,
                                             int multiprocessors) {
  constexpr std::int64_t min_part = 4096;
  const std::int64_t blocks = 2 * std::int64_t{multiprocessors},
                     most = extent / std::max(min_part, 2 * min_selection_ratio * count);
  return std::clamp<std::int64_t>(blocks / std::max<std::int64_t>(lines, 1), 1, std::max<std::int64_t>(most, 1));
}

}  // namespace ridge::ops::cuda

// Limits of the CUDA kernels of the loops.
#pragma once

#include <cstdint>

namespace ridge::ops::cuda {

inline constexpr int max_device_axes = 12;                                  // Axes that cannot be merged
inline constexpr int max_device_fold_axes = 6;                              // The same for folds, as in fold_kernels.h
inline constexpr std::int64_t max_sorted_elements = std::int64_t{1} << 30;  // Elements of a line or list that is sorted
inline constexpr std::int64_t max_bucketed_targets =
    640 * 1024;  // Rows of a scatter's result without a sort of all rows

}  // namespace ridge::ops::cuda

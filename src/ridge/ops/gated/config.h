// Compile-time configurations of the gated layer's kernel on Hopper. n counts the columns of both halves (up and gate),
// so a tile of 128 x 192 gives 128 x 96 results.
#pragma once

#include "ridge/ops/product/config.h"

namespace ridge::ops {

inline constexpr std::array sm90_gated_kernel_configs = {
    sm90_configs::pingpong_tile(192, 5, 1),
    sm90_configs::pingpong_tile(192, 4, 2),
    sm90_configs::pingpong_tile(128, 6),
    sm90_configs::two_consumers(128, 256, 4),
    sm90_configs::two_consumers(256, 128, 4),
    sm90_configs::one_consumer(64, 12),
    sm90_configs::one_consumer(128, 8),
    // Configurations for weights that are contiguous along n; each half of a tile has a multiple of 64 columns.
    sm90_configs::with_majors(sm90_configs::pingpong_tile(128, 6), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::two_consumers(128, 256, 4), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::two_consumers(256, 128, 4), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::one_consumer(128, 8), sm90_configs::k, sm90_configs::mn),
};

}  // namespace ridge::ops

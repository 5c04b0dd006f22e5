// Compile-time configurations of the gated layer's kernel on Hopper: n counts the columns of both halves, so a tile of
// 128 x 192 gives 128 x 96 results.
#pragma once

#include "ridge/ops/product/config.h"

namespace ridge::ops {

inline constexpr std::array sm90_gated_menu = {
    sm90_configs::ping(192, 5, 1),
    sm90_configs::ping(192, 4, 2),
    sm90_configs::ping(128, 6),
    sm90_configs::both(128, 256, 4),
    sm90_configs::both(256, 128, 4),
    sm90_configs::one(64, 12),
    sm90_configs::one(128, 8),
    // Weights contiguous along n; each half has a multiple of 64 columns.
    sm90_configs::with(sm90_configs::ping(128, 6), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::both(128, 256, 4), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::both(256, 128, 4), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::one(128, 8), sm90_configs::k, sm90_configs::mn),
};

}  // namespace ridge::ops

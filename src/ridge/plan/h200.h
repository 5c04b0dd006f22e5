// An H200 as plans see it. Internal to plan/.
#pragma once

#include "ridge/ops/model.h"

namespace ridge {

inline constexpr ops::DeviceNumbers h200{.multiprocessors = 132,
                                         .bytes_per_s = 4.2e12,
                                         .lanes_per_s = 132 * 128 * 1.7e9,
                                         .launch_s = 2.3e-6,
                                         .plain_flop_per_s = 8e12,
                                         .cache_bytes = 50 << 20,
                                         .workspace_bytes = std::size_t{512} << 20};

}  // namespace ridge

// An H200 as plans see it, as in ops/product/plan.cc, and why one tile loses to another there. Internal to plan/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ridge/ops/product/config.h"

namespace ridge {

namespace h200 {
inline constexpr int multiprocessors = 132;
inline constexpr double bytes_per_s = 4.2e12, lanes_per_s = 132 * 128 * 1.7e9, launch_s = 2.3e-6;
inline constexpr double plain_flop_per_s = 8e12;
inline constexpr std::int64_t cache_bytes = 50 << 20;
inline constexpr std::size_t workspace_bytes = std::size_t{512} << 20, most_losers = 4;
}  // namespace h200

struct Tiled {  // a product cut into tiles
  ops::MatmulConfig config;
  double sums = 0;  // of batch * m * n, that are wanted
  std::int64_t tiles = 0, waves = 0;
  int pieces = 1;
};
std::string why_slower(const Tiled& best, const Tiled& loser);  // its greatest disadvantage

}  // namespace ridge

// What a matmul kernel is compiled as: the shape of its tile. How much of it a shape really uses, who shares what and
// in which order work items come is the schedule's, chosen at run time. Planner, launcher and targets read the same
// menu.
#pragma once

#include <array>

namespace ridge::kernels {

struct MatmulConfig {
  int m = 0, n = 0, k = 0;  // output tile, and depth of one stage
  int stages = 2;           // tiles that may be on their way at once
  int consumers = 1;        // groups of threads that multiply
  constexpr int sharers() const { return consumers; }
  bool operator==(const MatmulConfig&) const = default;
};

// On a CPU a tile is an upper limit: the target cuts it down to what its caches hold.
inline constexpr std::array cpu_menu = {
    MatmulConfig{.m = 112, .n = 4096, .k = 4096},
};

}  // namespace ridge::kernels

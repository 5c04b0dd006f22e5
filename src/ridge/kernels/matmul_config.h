// What a matmul kernel is compiled as: the shape of its tile. How much of it a shape really uses, who shares what and
// in which order work items come is the schedule's, chosen at run time. Planner, launcher and targets read the same
// menu.
#pragma once

#include <array>

#include "ridge/tile/roles.h"

namespace ridge::kernels {

struct MatmulConfig {
  int m = 0, n = 0, k = 0;  // output tile, and depth of one stage
  int stages = 2;           // tiles that may be on their way at once
  int consumers = 1;        // groups of threads that multiply
  tile::Roles roles = tile::Roles::cooperative;
  tile::Major a = tile::Major::k, b = tile::Major::k;  // as the tile sees the operands, after an exchange
  bool swap = false;                                   // the tile is one of D transposed: few rows of D lie along n
  int staging = 2;                                     // 64-column buffers for the output, per consumer
  int cluster_m = 1, cluster_n = 1;                    // blocks that share what they load, along m and n
  constexpr int sharers() const { return roles == tile::Roles::pingpong ? 1 : consumers; }
  constexpr int cluster() const { return cluster_m * cluster_n; }
  constexpr bool splits() const { return m * n <= 128 * 128; }  // k may be cut in pieces; larger sums cost too much
  bool operator==(const MatmulConfig&) const = default;
};

// On a CPU a tile is an upper limit: the target cuts it down to what its caches hold.
inline constexpr std::array cpu_menu = {
    MatmulConfig{.m = 112, .n = 4096, .k = 4096},
};

}  // namespace ridge::kernels

// What a matmul kernel is compiled as: the shape of its tile. How much of it a shape really uses, who shares what and
// in which order work items come is the schedule's, chosen at run time. Planner, launcher and targets read the same
// menu.
#pragma once

#include <array>

#include "ridge/tile/roles.h"

namespace ridge::ops {

struct MatmulConfig {
  int m = 0, n = 0, k = 0;  // output tile, and depth of one stage
  int stages = 2;           // tiles that may be on their way at once
  int consumers = 1;        // groups of threads that multiply
  tile::Roles roles = tile::Roles::cooperative;
  tile::Major a = tile::Major::k, b = tile::Major::k;  // as the tile sees the operands, after an exchange
  bool swap = false;                                   // the tile is one of D transposed: few rows of D lie along n
  int staging = 2;                                     // 64-column buffers for the output, per consumer
  int cluster_m = 1, cluster_n = 1;                    // blocks that share what they load, along m and n
  bool grouped = false;                                // D's rows lie in groups (problem.h)
  constexpr int sharers() const { return roles == tile::Roles::pingpong ? 1 : consumers; }
  constexpr int cluster() const { return cluster_m * cluster_n; }
  // Blocks of a cluster are numbered along m first. A tile of A is loaded by those along n that want it, one of B by
  // those along m: whether block `r` loads for block `s`, and how many load for one.
  constexpr bool share_loads(int r, int s) const {
    if (cluster_m == 1 || cluster_n == 1) return true;  // said so that no kernel keeps its rank for it
    return r % cluster_m == s % cluster_m || r / cluster_m == s / cluster_m;
  }
  constexpr int loaders() const { return cluster_m + cluster_n - 1; }
  constexpr bool can_split() const {  // k may be cut in pieces; larger sums cost too much
    return !grouped && m * n <= (sharers() > 1 ? 128 * 160 : 128 * 128);
  }
  // … of which a cluster's blocks have one each (SplitMode::cluster_split_k): no two tiles may be under way in one
  // block.
  constexpr bool shares() const {
    return !grouped && m * n <= 128 * 128 && roles == tile::Roles::cooperative && cluster() == 1;
  }
  // Whether a kernel can share rows with other ranks (tile/shared_rows.h): those of D, where one group waits until its
  // sums have come to memory while another one multiplies, and a cluster's wide tiles leave no registers for it; those
  // of A, which large products gather.
  constexpr bool scatters_rows() const {
    return !grouped && roles == tile::Roles::pingpong && !swap && n % 64 == 0 && (cluster() == 1 || n <= 128);
  }
  constexpr bool gathers_rows() const {
    return !grouped && m == 128 && n >= 128 && !swap && consumers == 2 && a == tile::Major::k;
  }
  // 16 columns of 64 rows each, that the end of a consumer's part takes: what its pieces divide
  // (SplitMode::cooperative_split_k).
  constexpr int turns() const { return (n + 15) / 16 * (m / sharers() / 64); }
  bool operator==(const MatmulConfig&) const = default;
};

// On a CPU a tile is an upper limit: the target cuts it down to what its caches hold.
inline constexpr std::array cpu_menu = {
    MatmulConfig{.m = 112, .n = 4096, .k = 4096},
};

// Hopper. Ping-pong up to 128 x 192, for its stores run under the other's products; wider tiles need both consumers'
// registers. Widths in steps of 16, for what wins at large sizes is a whole number of waves: 8192 x 8192 in tiles of
// 128 x 192 is 20.8 waves of 132, in tiles of 128 x 128 it is 31.03. Swapped tiles put few rows of D along n.
namespace sm90_configs {
using tile::Major, tile::Roles;
constexpr MatmulConfig ping(int n, int stages, int staging = 2) {
  return {.m = 128, .n = n, .k = 64, .stages = stages, .consumers = 2, .roles = Roles::pingpong, .staging = staging};
}
constexpr MatmulConfig both(int m, int n, int stages) {
  return {.m = m, .n = n, .k = 64, .stages = stages, .consumers = 2};
}
constexpr MatmulConfig three(int n, int stages) {  // 64 rows each
  return {.m = 192, .n = n, .k = 64, .stages = stages, .consumers = 3, .staging = 1};
}
constexpr MatmulConfig one(int n, int stages) { return {.m = 64, .n = n, .k = 64, .stages = stages, .consumers = 1}; }
constexpr MatmulConfig tall(int n, int stages) { return {.m = 128, .n = n, .k = 64, .stages = stages, .consumers = 1}; }
constexpr MatmulConfig swapped(int m, int n, int k, int stages, int staging = 2) {
  return {.m = m, .n = n, .k = k, .stages = stages, .consumers = m / 64, .swap = true, .staging = staging};
}
constexpr MatmulConfig with(MatmulConfig c, Major a, Major b) {
  c.a = a;
  c.b = b;
  return c;
}
constexpr MatmulConfig clustered(MatmulConfig c, int m, int n) {
  c.cluster_m = m;
  c.cluster_n = n;
  return c;
}
constexpr MatmulConfig grouped(MatmulConfig c) {
  c.grouped = true;
  return c;
}
constexpr auto k = Major::k, mn = Major::mn;
}  // namespace sm90_configs

inline constexpr std::array sm90_menu = {
    // A and B contiguous along k
    sm90_configs::ping(64, 8),
    sm90_configs::ping(80, 7),
    sm90_configs::ping(112, 6),
    sm90_configs::ping(128, 6),
    sm90_configs::ping(144, 5),
    sm90_configs::ping(160, 5),
    sm90_configs::ping(176, 5),
    sm90_configs::ping(192, 5, 1),
    sm90_configs::both(128, 128, 6),
    sm90_configs::both(128, 208, 4),
    sm90_configs::both(128, 224, 4),
    sm90_configs::both(128, 256, 4),
    sm90_configs::one(32, 14),
    sm90_configs::one(80, 10),
    sm90_configs::one(96, 10),
    sm90_configs::one(128, 8),
    sm90_configs::swapped(128, 8, 128, 6),
    sm90_configs::swapped(128, 16, 128, 5),
    sm90_configs::swapped(128, 32, 128, 5),
    sm90_configs::swapped(128, 48, 128, 4),
    sm90_configs::swapped(128, 80, 64, 7),
    sm90_configs::swapped(128, 96, 64, 6),
    sm90_configs::swapped(64, 8, 128, 11),
    sm90_configs::swapped(64, 16, 128, 10),
    sm90_configs::swapped(64, 32, 128, 8),
    sm90_configs::swapped(64, 64, 128, 6),
    // B contiguous along n (a layer's input gradient)
    sm90_configs::with(sm90_configs::ping(64, 8), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::ping(192, 5, 1), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::both(128, 256, 4), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::one(128, 8), sm90_configs::k, sm90_configs::mn),
    // A contiguous along m
    sm90_configs::with(sm90_configs::ping(128, 6), sm90_configs::mn, sm90_configs::k),
    sm90_configs::with(sm90_configs::one(64, 8), sm90_configs::mn, sm90_configs::k),
    sm90_configs::with(sm90_configs::swapped(128, 16, 128, 5), sm90_configs::mn, sm90_configs::k),
    sm90_configs::with(sm90_configs::swapped(64, 16, 128, 10), sm90_configs::mn, sm90_configs::k),
    sm90_configs::with(sm90_configs::swapped(64, 64, 128, 6), sm90_configs::mn, sm90_configs::k),
    // both (a layer's weight gradient)
    sm90_configs::with(sm90_configs::ping(128, 6), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::both(128, 128, 6), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::both(128, 256, 4), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::one(64, 8), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::one(128, 8), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::swapped(64, 64, 128, 6), sm90_configs::mn, sm90_configs::mn),
    // Blocks that share what they load: the L2 is asked for less, above all for what all blocks read, a few tokens
    sm90_configs::clustered(sm90_configs::both(128, 128, 6), 2, 1),
    sm90_configs::clustered(sm90_configs::both(128, 256, 4), 2, 1),
    sm90_configs::clustered(sm90_configs::ping(192, 5, 1), 2, 1),
    sm90_configs::clustered(sm90_configs::one(96, 10), 2, 1),
    sm90_configs::clustered(sm90_configs::one(128, 8), 2, 1),
    sm90_configs::clustered(sm90_configs::swapped(64, 64, 128, 6), 1, 2),
    sm90_configs::clustered(sm90_configs::swapped(128, 96, 64, 6), 1, 2),
    sm90_configs::clustered(sm90_configs::swapped(64, 64, 128, 6), 2, 2),
    sm90_configs::clustered(sm90_configs::swapped(64, 32, 128, 8), 4, 1),
    sm90_configs::clustered(sm90_configs::swapped(64, 64, 128, 6), 4, 1),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(64, 32, 128, 8), 4, 1), sm90_configs::mn,
                       sm90_configs::k),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(64, 64, 128, 6), 4, 1), sm90_configs::mn,
                       sm90_configs::k),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(64, 64, 128, 6), 4, 1), sm90_configs::mn,
                       sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::both(128, 64, 7), 1, 4), sm90_configs::mn,
                       sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::both(128, 128, 6), 2, 1), sm90_configs::mn,
                       sm90_configs::mn),
    sm90_configs::clustered(sm90_configs::ping(80, 7), 1, 2),
    sm90_configs::clustered(sm90_configs::ping(160, 5), 2, 1),
    sm90_configs::clustered(sm90_configs::ping(176, 5), 2, 1),
    sm90_configs::clustered(sm90_configs::one(80, 10), 1, 4),
    sm90_configs::swapped(128, 112, 64, 6, 1),
    sm90_configs::clustered(sm90_configs::swapped(128, 80, 64, 7), 1, 2),
    sm90_configs::clustered(sm90_configs::swapped(128, 160, 64, 5, 1), 1, 2),
    sm90_configs::clustered(sm90_configs::swapped(128, 160, 64, 5, 1), 2, 2),
    sm90_configs::clustered(sm90_configs::swapped(64, 96, 64, 9), 1, 4),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::ping(128, 6), 2, 1), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(64, 32, 128, 8), 1, 2), sm90_configs::mn,
                       sm90_configs::k),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(64, 64, 128, 6), 1, 2), sm90_configs::mn,
                       sm90_configs::k),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(128, 160, 64, 5, 1), 2, 1), sm90_configs::mn,
                       sm90_configs::k),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::ping(128, 6), 2, 1), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::ping(192, 5, 1), 2, 1), sm90_configs::mn,
                       sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(128, 64, 128, 4), 4, 1), sm90_configs::mn,
                       sm90_configs::mn),
    sm90_configs::clustered(sm90_configs::both(128, 96, 6), 1, 2),
    sm90_configs::clustered(sm90_configs::both(128, 112, 6), 1, 2),
    sm90_configs::clustered(sm90_configs::both(128, 144, 5), 2, 2),
    sm90_configs::clustered(sm90_configs::both(128, 160, 5), 2, 2),
    sm90_configs::clustered(sm90_configs::one(256, 5), 1, 2),
    sm90_configs::clustered(sm90_configs::swapped(128, 144, 64, 5, 1), 2, 2),
    sm90_configs::clustered(sm90_configs::swapped(64, 80, 64, 10), 1, 4),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::one(192, 6), 2, 1), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::both(128, 128, 6), 4, 1), sm90_configs::mn,
                       sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::one(128, 8), 4, 1), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::one(64, 12), 1, 4), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::one(64, 12), 4, 2), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::one(192, 6), 4, 1), sm90_configs::mn, sm90_configs::mn),
    // One wave: no other tile's products hide a tile's end, so both consumers hurry to it
    sm90_configs::both(128, 96, 6),
    sm90_configs::both(128, 112, 6),
    sm90_configs::both(128, 144, 5),
    sm90_configs::swapped(128, 176, 64, 4, 1),
    sm90_configs::clustered(sm90_configs::swapped(64, 128, 64, 8), 4, 2),
    sm90_configs::clustered(sm90_configs::swapped(128, 80, 64, 7), 2, 4),
    sm90_configs::clustered(sm90_configs::swapped(128, 112, 64, 6, 1), 2, 4),
    sm90_configs::with(sm90_configs::one(192, 5), sm90_configs::k, sm90_configs::mn),
    // One wave in clusters: narrow tiles on nearly all multiprocessors, and the L2 is asked for a quarter of what they
    // read
    sm90_configs::clustered(sm90_configs::tall(64, 8), 2, 4),
    sm90_configs::clustered(sm90_configs::tall(80, 8), 2, 4),
    sm90_configs::clustered(sm90_configs::tall(96, 7), 2, 4),
    sm90_configs::clustered(sm90_configs::tall(112, 6), 2, 4),
    sm90_configs::clustered(sm90_configs::both(128, 128, 6), 2, 4),
    sm90_configs::clustered(sm90_configs::one(80, 11), 1, 2),
    sm90_configs::clustered(sm90_configs::one(80, 11), 2, 4),
    sm90_configs::clustered(sm90_configs::swapped(64, 96, 64, 10, 1), 4, 1),
    sm90_configs::clustered(sm90_configs::swapped(64, 128, 64, 8, 1), 4, 1),
    sm90_configs::clustered(sm90_configs::swapped(64, 160, 64, 7, 1), 4, 1),
    sm90_configs::clustered(sm90_configs::swapped(64, 192, 64, 6, 1), 4, 1),
    sm90_configs::clustered(sm90_configs::swapped(192, 144, 64, 4, 1), 2, 2),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(64, 96, 64, 10, 1), 4, 1), sm90_configs::mn,
                       sm90_configs::k),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(64, 160, 64, 7, 1), 4, 1), sm90_configs::mn,
                       sm90_configs::k),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::swapped(64, 192, 64, 6, 1), 4, 1), sm90_configs::mn,
                       sm90_configs::k),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::tall(64, 8), 2, 4), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::both(128, 128, 6), 2, 4), sm90_configs::mn,
                       sm90_configs::mn),
    // Three consumers: more multiplies for the bytes of a stage, and other numbers of waves
    sm90_configs::three(128, 5),
    sm90_configs::three(176, 4),
    sm90_configs::clustered(sm90_configs::three(192, 4), 1, 2),
    sm90_configs::with(sm90_configs::three(192, 4), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with(sm90_configs::three(128, 5), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with(sm90_configs::clustered(sm90_configs::three(192, 4), 2, 1), sm90_configs::mn, sm90_configs::mn),
    // Rows in groups: tall tiles for long groups, swapped ones for a few rows each; B contiguous along k, then along n
    sm90_configs::grouped(sm90_configs::ping(128, 6)),
    sm90_configs::grouped(sm90_configs::ping(192, 5, 1)),
    sm90_configs::grouped(sm90_configs::both(128, 256, 4)),
    sm90_configs::grouped(sm90_configs::swapped(128, 16, 128, 5)),
    sm90_configs::grouped(sm90_configs::swapped(128, 32, 128, 5)),
    sm90_configs::grouped(sm90_configs::swapped(64, 64, 128, 6)),
    sm90_configs::grouped(sm90_configs::with(sm90_configs::ping(128, 6), sm90_configs::k, sm90_configs::mn)),
    sm90_configs::grouped(sm90_configs::with(sm90_configs::both(128, 256, 4), sm90_configs::k, sm90_configs::mn)),
    sm90_configs::grouped(
        sm90_configs::with(sm90_configs::swapped(128, 16, 128, 5), sm90_configs::mn, sm90_configs::k)),
    sm90_configs::grouped(sm90_configs::with(sm90_configs::swapped(64, 64, 128, 6), sm90_configs::mn, sm90_configs::k)),
};

// A sample of the menu, one config of each kind: the first whose roles and layouts no earlier one has, or whose roles
// and ways to share loads. A build with RIDGE_MENU=SAMPLE, for tests without a device, compiles these alone.
constexpr bool in_sample(std::size_t index) {
  bool new_layout = true, new_cluster = true;
  for (std::size_t i = 0; i < index; ++i) {
    const MatmulConfig &x = sm90_menu[i], &c = sm90_menu[index];
    if (x.roles != c.roles || x.consumers != c.consumers || x.swap != c.swap || x.grouped != c.grouped) continue;
    if (x.a == c.a && x.b == c.b) new_layout = false;
    if ((x.cluster_m > 1) == (c.cluster_m > 1) && (x.cluster_n > 1) == (c.cluster_n > 1)) new_cluster = false;
  }
  return new_layout || new_cluster;
}

}  // namespace ridge::ops

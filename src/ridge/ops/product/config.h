// Compile-time configurations of matmul kernels: the shape of the tile and the roles of warpgroups. The schedule,
// chosen at run time, sets sizes, splits and the order of work items. Planner, launcher and targets use the same list.
#pragma once

#include <array>

#include "ridge/base/block_scale.h"
#include "ridge/base/operand_type.h"
#include "ridge/tile/roles.h"
#include "ridge/tile/sum_pieces.h"

namespace ridge::ops {

struct MatmulConfig {
  int m = 0, n = 0, k = 0;  // Output tile, and depth of one stage
  int stages = 2;           // Stages in the ring
  int consumers = 1;        // Warpgroups that multiply
  tile::Roles roles = tile::Roles::cooperative;
  tile::Major a = tile::Major::k, b = tile::Major::k;  // Contiguous axes of the operands after a swap
  bool swap = false;                                   // Computes tiles of D transposed, so that n is along D's rows
  int staging = 2;                                     // Output buffers of 64 columns per consumer
  int cluster_m = 1, cluster_n = 1;                    // Blocks that share loads by multicast, along m and n
  bool grouped = false;                                // D's rows are grouped (problem.h)
  bool adds_pieces = false;    // Adds sums of 128 elements in f32: tensor cores keep 13 bits of sums of 8-bit floats
  bool scales_blocks = false;  // Multiplies these sums by the scales of e4m3_128; a stage has one block of each line
  constexpr int warpgroups_per_tile() const { return roles == tile::Roles::pingpong ? 1 : consumers; }
  // True if the groups of a tile take turns in using the tensor cores (tile/sum_pieces.h).
  constexpr bool takes_turns() const { return adds_pieces && warpgroups_per_tile() > 1; }
  // True if two groups with tiles of their own add sums at the same time, which is slow. Only they can scatter rows.
  constexpr bool adds_without_turns() const { return adds_pieces && roles == tile::Roles::pingpong; }
  constexpr int cluster() const { return cluster_m * cluster_n; }
  // True if block `r` of a cluster loads for block `s`. Ranks run along m first. Blocks with the same m load parts of a
  // tile of A for each other, those with the same n parts of a tile of B.
  constexpr bool shares_loads(int r, int s) const {
    if (cluster_m == 1 || cluster_n == 1) return true;  // Saves a register for the rank
    return r % cluster_m == s % cluster_m || r / cluster_m == s / cluster_m;
  }
  // Number of blocks, including a block itself, that load for that block.
  constexpr int blocks_sharing_loads() const { return cluster_m + cluster_n - 1; }
  constexpr bool can_split() const {  // False for large tiles, whose partial sums cost too much
    return !grouped && m * n <= (warpgroups_per_tile() > 1 ? 128 * 160 : 128 * 128);
  }
  // True if the blocks of a cluster can be the splits of k (`SplitMode::cluster_split_k`). A block then computes one
  // tile at a time, so pingpong is excluded.
  constexpr bool can_split_in_cluster() const {
    return !grouped && m * n <= 128 * 128 && roles == tile::Roles::cooperative && cluster() == 1;
  }
  // True if a kernel can scatter rows of D to other ranks (tile/shared_rows.h). Requires pingpong, because one
  // warpgroup waits for its stores while the other multiplies; wide tiles in clusters have too few registers.
  constexpr bool can_scatter_rows() const {
    return !grouped && roles == tile::Roles::pingpong && !swap && n % 64 == 0 && (cluster() == 1 || n <= 128);
  }
  // True if a kernel can gather rows of A from other ranks; restricted to the tiles of large products.
  constexpr bool can_gather_rows() const {
    return !grouped && m == 128 && n >= 128 && !swap && consumers == 2 && a == tile::Major::k;
  }
  // True if a kernel can multiply the windows of a convolution (tile/sm90/tap_walk.h).
  // Clusters along both axes have too few registers.
  constexpr bool can_load_windows() const {
    return !grouped && a == tile::Major::k && b == tile::Major::k && (cluster_m == 1 || cluster_n == 1);
  }
  // Epilogue steps of 64 rows x 16 columns per consumer; `SplitMode::cooperative_split_k` divides them among splits.
  constexpr int epilogue_steps() const { return (n + 15) / 16 * (m / warpgroups_per_tile() / 64); }
  // True if a kernel can multiply operands of this dtype: k must be contiguous except in elements of 16 bits and in the
  // left operand of 32 bits, which threads load to registers; and pieces of the sums need registers. No kernel
  // scales blocks in pingpong or in large clusters.
  constexpr bool can_multiply(DType operand) const {
    const int bytes = operand_bytes(operand);
    if (bytes == 2) return true;
    if (b != tile::Major::k) return false;
    if (a != tile::Major::k && (bytes != 4 || (n != 16 && n % 32 != 0) || n == 224)) return false;
    if (is_block_scaled(operand) && (cluster() > 2 || roles == tile::Roles::pingpong)) return false;
    const tile::SumPieces pieces{m / warpgroups_per_tile(), n, warpgroups_per_tile()};
    int registers = consumers == 3 ? 144 : 192;
    if (consumers == 3 && is_block_scaled(operand)) registers = 128;  // The scales need registers, too
    return !adds_pieces || (pieces.have_equal_registers() && pieces.registers() <= registers);
  }
  bool operator==(const MatmulConfig&) const = default;
};

// Tile sizes on a CPU are upper limits: the target reduces them to the size of the caches.
inline constexpr std::array cpu_kernel_configs = {
    MatmulConfig{.m = 112, .n = 4096, .k = 4096},
};

// Hopper configurations. Tiles up to 128 x 192 use pingpong: the stores of one consumer overlap the multiplies of the
// other. Wider tiles need the registers of both consumers. Widths are multiples of 16, because large products need
// nearly full waves: 8192 x 8192 takes 20.8 waves of 132 tiles of 128 x 192, but 31.03 waves of 128 x 128. Swapped
// tiles are for D with few rows, which are along n.
namespace sm90_configs {
using tile::Major, tile::Roles;
constexpr MatmulConfig pingpong_tile(int n, int stages, int staging = 2) {
  return {.m = 128, .n = n, .k = 64, .stages = stages, .consumers = 2, .roles = Roles::pingpong, .staging = staging};
}
constexpr MatmulConfig two_consumers(int m, int n, int stages) {
  return {.m = m, .n = n, .k = 64, .stages = stages, .consumers = 2};
}
constexpr MatmulConfig three_consumers(int n, int stages) {  // 64 rows per consumer
  return {.m = 192, .n = n, .k = 64, .stages = stages, .consumers = 3, .staging = 1};
}
constexpr MatmulConfig one_consumer(int n, int stages) {
  return {.m = 64, .n = n, .k = 64, .stages = stages, .consumers = 1};
}
constexpr MatmulConfig one_tall_consumer(int n, int stages) {
  return {.m = 128, .n = n, .k = 64, .stages = stages, .consumers = 1};
}
constexpr MatmulConfig swapped(int m, int n, int k, int stages, int staging = 2) {
  return {.m = m, .n = n, .k = k, .stages = stages, .consumers = m / 64, .swap = true, .staging = staging};
}
constexpr MatmulConfig with_majors(MatmulConfig c, Major a, Major b) {
  c.a = a;
  c.b = b;
  return c;
}
constexpr MatmulConfig in_cluster(MatmulConfig c, int m, int n) {
  c.cluster_m = m;
  c.cluster_n = n;
  return c;
}
constexpr MatmulConfig for_groups(MatmulConfig c) {
  c.grouped = true;
  return c;
}
constexpr auto k = Major::k, mn = Major::mn;
}  // namespace sm90_configs

inline constexpr std::array sm90_kernel_configs = {
    // A and B contiguous along k
    sm90_configs::pingpong_tile(64, 8),
    sm90_configs::pingpong_tile(80, 7),
    sm90_configs::pingpong_tile(112, 6),
    sm90_configs::pingpong_tile(128, 6),
    sm90_configs::pingpong_tile(144, 5),
    sm90_configs::pingpong_tile(160, 5),
    sm90_configs::pingpong_tile(176, 5),
    sm90_configs::pingpong_tile(192, 5, 1),
    sm90_configs::two_consumers(128, 128, 6),
    sm90_configs::two_consumers(128, 208, 4),
    sm90_configs::two_consumers(128, 224, 4),
    sm90_configs::two_consumers(128, 256, 4),
    sm90_configs::one_consumer(32, 14),
    sm90_configs::one_consumer(80, 10),
    sm90_configs::one_consumer(96, 10),
    sm90_configs::one_consumer(128, 8),
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
    // B contiguous along n (input gradient of a layer)
    sm90_configs::with_majors(sm90_configs::pingpong_tile(64, 8), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::pingpong_tile(192, 5, 1), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::two_consumers(128, 256, 4), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::one_consumer(128, 8), sm90_configs::k, sm90_configs::mn),
    // A contiguous along m
    sm90_configs::with_majors(sm90_configs::pingpong_tile(128, 6), sm90_configs::mn, sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::one_consumer(64, 8), sm90_configs::mn, sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::swapped(128, 16, 128, 5), sm90_configs::mn, sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::swapped(64, 16, 128, 10), sm90_configs::mn, sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::swapped(64, 64, 128, 6), sm90_configs::mn, sm90_configs::k),
    // A contiguous along m and B along n (weight gradient of a layer)
    sm90_configs::with_majors(sm90_configs::pingpong_tile(128, 6), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::two_consumers(128, 128, 6), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::two_consumers(128, 256, 4), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::one_consumer(64, 8), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::one_consumer(128, 8), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::swapped(64, 64, 128, 6), sm90_configs::mn, sm90_configs::mn),
    // Clusters, whose multicast loads reduce L2 traffic, mostly for few tokens, which all blocks read
    sm90_configs::in_cluster(sm90_configs::two_consumers(128, 128, 6), 2, 1),
    sm90_configs::in_cluster(sm90_configs::two_consumers(128, 256, 4), 2, 1),
    sm90_configs::in_cluster(sm90_configs::pingpong_tile(192, 5, 1), 2, 1),
    sm90_configs::in_cluster(sm90_configs::one_consumer(96, 10), 2, 1),
    sm90_configs::in_cluster(sm90_configs::one_consumer(128, 8), 2, 1),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 64, 128, 6), 1, 2),
    sm90_configs::in_cluster(sm90_configs::swapped(128, 96, 64, 6), 1, 2),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 64, 128, 6), 2, 2),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 32, 128, 8), 4, 1),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 64, 128, 6), 4, 1),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(64, 32, 128, 8), 4, 1), sm90_configs::mn,
                              sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(64, 64, 128, 6), 4, 1), sm90_configs::mn,
                              sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(64, 64, 128, 6), 4, 1), sm90_configs::mn,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::two_consumers(128, 64, 7), 1, 4), sm90_configs::mn,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::two_consumers(128, 128, 6), 2, 1),
                              sm90_configs::mn, sm90_configs::mn),
    sm90_configs::in_cluster(sm90_configs::pingpong_tile(80, 7), 1, 2),
    sm90_configs::in_cluster(sm90_configs::pingpong_tile(160, 5), 2, 1),
    sm90_configs::in_cluster(sm90_configs::pingpong_tile(176, 5), 2, 1),
    sm90_configs::in_cluster(sm90_configs::one_consumer(80, 10), 1, 4),
    sm90_configs::swapped(128, 112, 64, 6, 1),
    sm90_configs::in_cluster(sm90_configs::swapped(128, 80, 64, 7), 1, 2),
    sm90_configs::in_cluster(sm90_configs::swapped(128, 160, 64, 5, 1), 1, 2),
    sm90_configs::in_cluster(sm90_configs::swapped(128, 160, 64, 5, 1), 2, 2),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 96, 64, 9), 1, 4),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::pingpong_tile(128, 6), 2, 1), sm90_configs::k,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(64, 32, 128, 8), 1, 2), sm90_configs::mn,
                              sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(64, 64, 128, 6), 1, 2), sm90_configs::mn,
                              sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(128, 160, 64, 5, 1), 2, 1),
                              sm90_configs::mn, sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::pingpong_tile(128, 6), 2, 1), sm90_configs::mn,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::pingpong_tile(192, 5, 1), 2, 1), sm90_configs::mn,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(128, 64, 128, 4), 4, 1), sm90_configs::mn,
                              sm90_configs::mn),
    sm90_configs::in_cluster(sm90_configs::two_consumers(128, 96, 6), 1, 2),
    sm90_configs::in_cluster(sm90_configs::two_consumers(128, 112, 6), 1, 2),
    sm90_configs::in_cluster(sm90_configs::two_consumers(128, 144, 5), 2, 2),
    sm90_configs::in_cluster(sm90_configs::two_consumers(128, 160, 5), 2, 2),
    sm90_configs::in_cluster(sm90_configs::one_consumer(256, 5), 1, 2),
    sm90_configs::in_cluster(sm90_configs::swapped(128, 144, 64, 5, 1), 2, 2),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 80, 64, 10), 1, 4),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::one_consumer(192, 6), 2, 1), sm90_configs::k,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::two_consumers(128, 128, 6), 4, 1),
                              sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::one_consumer(128, 8), 4, 1), sm90_configs::mn,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::one_consumer(64, 12), 1, 4), sm90_configs::mn,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::one_consumer(64, 12), 4, 2), sm90_configs::mn,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::one_consumer(192, 6), 4, 1), sm90_configs::mn,
                              sm90_configs::mn),
    // One wave: no other tile hides the epilogue, so both consumers share it
    sm90_configs::two_consumers(128, 96, 6),
    sm90_configs::two_consumers(128, 112, 6),
    sm90_configs::two_consumers(128, 144, 5),
    sm90_configs::swapped(128, 176, 64, 4, 1),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 128, 64, 8), 4, 2),
    sm90_configs::in_cluster(sm90_configs::swapped(128, 80, 64, 7), 2, 4),
    sm90_configs::in_cluster(sm90_configs::swapped(128, 112, 64, 6, 1), 2, 4),
    sm90_configs::with_majors(sm90_configs::one_consumer(192, 5), sm90_configs::k, sm90_configs::mn),
    // One wave in clusters: narrow tiles on nearly all multiprocessors, at a quarter of the L2 traffic
    sm90_configs::in_cluster(sm90_configs::one_tall_consumer(64, 8), 2, 4),
    sm90_configs::in_cluster(sm90_configs::one_tall_consumer(80, 8), 2, 4),
    sm90_configs::in_cluster(sm90_configs::one_tall_consumer(96, 7), 2, 4),
    sm90_configs::in_cluster(sm90_configs::one_tall_consumer(112, 6), 2, 4),
    sm90_configs::in_cluster(sm90_configs::two_consumers(128, 128, 6), 2, 4),
    sm90_configs::in_cluster(sm90_configs::one_consumer(80, 11), 1, 2),
    sm90_configs::in_cluster(sm90_configs::one_consumer(80, 11), 2, 4),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 96, 64, 10, 1), 4, 1),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 128, 64, 8, 1), 4, 1),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 160, 64, 7, 1), 4, 1),
    sm90_configs::in_cluster(sm90_configs::swapped(64, 192, 64, 6, 1), 4, 1),
    sm90_configs::in_cluster(sm90_configs::swapped(192, 144, 64, 4, 1), 2, 2),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(64, 96, 64, 10, 1), 4, 1),
                              sm90_configs::mn, sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(64, 160, 64, 7, 1), 4, 1),
                              sm90_configs::mn, sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::swapped(64, 192, 64, 6, 1), 4, 1),
                              sm90_configs::mn, sm90_configs::k),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::one_tall_consumer(64, 8), 2, 4), sm90_configs::mn,
                              sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::two_consumers(128, 128, 6), 2, 4),
                              sm90_configs::mn, sm90_configs::mn),
    // Three consumers: more multiplies per byte of a stage, and other numbers of waves
    sm90_configs::three_consumers(128, 5),
    sm90_configs::three_consumers(176, 4),
    sm90_configs::in_cluster(sm90_configs::three_consumers(192, 4), 1, 2),
    sm90_configs::with_majors(sm90_configs::three_consumers(192, 4), sm90_configs::k, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::three_consumers(128, 5), sm90_configs::mn, sm90_configs::mn),
    sm90_configs::with_majors(sm90_configs::in_cluster(sm90_configs::three_consumers(192, 4), 2, 1), sm90_configs::mn,
                              sm90_configs::mn),
    // Grouped rows: tall tiles for long groups, swapped tiles for short ones; B contiguous along k, then along n
    sm90_configs::for_groups(sm90_configs::pingpong_tile(128, 6)),
    sm90_configs::for_groups(sm90_configs::pingpong_tile(192, 5, 1)),
    sm90_configs::for_groups(sm90_configs::two_consumers(128, 256, 4)),
    sm90_configs::for_groups(sm90_configs::swapped(128, 16, 128, 5)),
    sm90_configs::for_groups(sm90_configs::swapped(128, 32, 128, 5)),
    sm90_configs::for_groups(sm90_configs::swapped(64, 64, 128, 6)),
    sm90_configs::for_groups(
        sm90_configs::with_majors(sm90_configs::pingpong_tile(128, 6), sm90_configs::k, sm90_configs::mn)),
    sm90_configs::for_groups(
        sm90_configs::with_majors(sm90_configs::two_consumers(128, 256, 4), sm90_configs::k, sm90_configs::mn)),
    sm90_configs::for_groups(
        sm90_configs::with_majors(sm90_configs::swapped(128, 16, 128, 5), sm90_configs::mn, sm90_configs::k)),
    sm90_configs::for_groups(
        sm90_configs::with_majors(sm90_configs::swapped(64, 64, 128, 6), sm90_configs::mn, sm90_configs::k)),
};

// True if the config is in the sample: the first one with its roles and layouts, or with its roles and cluster axes.
constexpr bool is_in_sample(std::size_t index) {
  bool new_layout = true, new_cluster = true;
  for (std::size_t i = 0; i < index; ++i) {
    const MatmulConfig &x = sm90_kernel_configs[i], &c = sm90_kernel_configs[index];
    if (x.roles != c.roles || x.consumers != c.consumers || x.swap != c.swap || x.grouped != c.grouped) continue;
    if (x.a == c.a && x.b == c.b) new_layout = false;
    if ((x.cluster_m > 1) == (c.cluster_m > 1) && (x.cluster_n > 1) == (c.cluster_n > 1)) new_cluster = false;
  }
  return new_layout || new_cluster;
}

// Returns a config of `sm90_kernel_configs` for operands of a dtype. The list has k of operands of 16 bits; a stage of
// other operands has as many bytes. A stage of block-scaled operands has one block of each line, and their scales take
// the memory of a stage.
constexpr MatmulConfig kernel_config(int config, DType operand) {
  MatmulConfig out = sm90_kernel_configs[static_cast<std::size_t>(config)];
  const int bytes = operand_bytes(operand);
  out.k = out.k * OperandType<Bf16>::bytes / bytes;
  out.adds_pieces = bytes == 1 && !has_integer_sums(operand);
  if (!is_block_scaled(operand)) return out;
  out.scales_blocks = true;
  const int ring_bytes = out.stages * (out.m + out.n) * out.k,
            scale_bytes =
                tile::scale_buffers * (out.m + out.n) * scale_quad * BlockPlanes<DType::e4m3_128>::scale_bytes;
  out.k = BlockPlanes<DType::e4m3_128>::block;
  out.stages = (ring_bytes - scale_bytes) / ((out.m + out.n) * out.k);
  return out;
}

// True if a build with RIDGE_MENU=SAMPLE, for tests without a device, compiles the config for a dtype. For bf16 this is
// the sample above. For other dtypes it is the first config with its roles, number of consumers and layout of A, of
// those that can multiply the dtype; configs that swap operands or group rows count separately.
constexpr bool is_in_sample(std::size_t index, DType operand) {
  if (operand == DType::bf16) return is_in_sample(index);
  for (std::size_t i = 0; i < index; ++i) {
    const MatmulConfig &x = sm90_kernel_configs[i], &c = sm90_kernel_configs[index];
    if (x.roles == c.roles && x.swap == c.swap && x.consumers == c.consumers && x.a == c.a && x.grouped == c.grouped &&
        kernel_config(static_cast<int>(i), operand).can_multiply(operand))
      return false;
  }
  return true;
}

}  // namespace ridge::ops

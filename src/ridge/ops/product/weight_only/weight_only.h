// Products of few rows of 16-bit activations with narrow weights (int8, e4m3 or block-scaled), which are read as they
// are stored and converted in registers. A tile of weight lines is the 16-row operand of the tensor cores, and the
// rows of activations are its columns. Internal to the CUDA product.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "ridge/ops/product/operands.h"
#include "ridge/tile/sm90/limits.h"

namespace ridge::ops::cuda {

inline constexpr std::int64_t max_weight_only_rows = 64;  // Rows of activations: eight groups of eight

// A box of weights that one load of the copy engine brings to shared memory: the same elements of k of each line of a
// tile. Four threads share a line of a box. Of block-scaled weights each thread has four blocks, whose bytes are a
// multiple of four; the bytes of a line are an odd multiple of 16, so that eight lines have no bank in common. Lines of
// 8-bit weights have 128 bytes, which are swizzled.
struct WeightBox {
  int line_bytes = 128, k = 128;
  bool is_swizzled = true;
};
constexpr WeightBox weight_box(DType weights) {
  constexpr int blocks = 16;  // Four threads with four blocks each
  if (!is_block_scaled(weights)) return {};
  return {blocks * static_cast<int>(stored_bytes(weights, dtype_info(weights).block)),
          blocks * dtype_info(weights).block, false};
}

// The lines and stages of a block's tile. Eight warps multiply; each has 32 lines, and the warps of the same lines
// divide k among them, 128 elements at a time.
struct WeightOnlyTile {
  static constexpr int multiplying_warps = 8, warp_lines = 32, warp_k = 128;
  static constexpr int max_stages = 8, barrier_bytes = 256;
  int lines = 0;  // 64, 128 or 256
  constexpr int k_warps() const { return multiplying_warps * warp_lines / lines; }
  // Returns the boxes along k of a stage, enough for all warps of the same lines. Kernels pass boxes as constants: a
  // device cannot read the table of dtypes, which `weight_box` does.
  constexpr int boxes(WeightBox box) const { return std::max(1, k_warps() * warp_k / box.k); }
  constexpr int stage_k(WeightBox box) const { return boxes(box) * box.k; }
  constexpr int weight_bytes(WeightBox box) const { return boxes(box) * lines * box.line_bytes; }
  // `groups` is the number of groups of eight rows of activations, 1, 2, 4 or 8.
  constexpr int stage_bytes(WeightBox box, int groups) const {
    return weight_bytes(box) + stage_k(box) * groups * 8 * 2;
  }
  // Sums have a padding of four floats for each line or row.
  constexpr int sum_bytes(int groups) const { return 4 * std::max(groups * 8 * (lines + 4), lines * (groups * 8 + 4)); }
  constexpr int count_stages(WeightBox box, int groups) const {
    return std::min(max_stages,
                    (tile::max_shared_bytes - barrier_bytes - sum_bytes(groups)) / stage_bytes(box, groups));
  }
};
inline constexpr int min_stages = 2;  // the least that overlaps loads and products
inline constexpr std::array weight_only_tiles = {WeightOnlyTile{64}, WeightOnlyTile{128}, WeightOnlyTile{256}};
constexpr int count_row_groups(std::int64_t rows) {
  int groups = 1;
  while (groups < 8 && groups * 8 < rows) groups *= 2;
  return groups;
}

// Returns the fastest plan of each tile, the fastest first; none if the kernel does not support the call.
// MatmulPlan::config is an index of `weight_only_tiles`, and MatmulPlan::splits is the number of blocks of a cluster
// that divide k.
std::vector<MatmulPlan> list_weight_only_plans(const MatmulCall& call, const DeviceNumbers& device);

// Returns the predicted seconds with a tile of `weight_only_tiles` and splits of k.
double predict_weight_only_seconds(const MatmulCall& call, int config, int splits, const DeviceNumbers& device);

// Returns true if the copy engine can read the weights.
bool can_engine_read_weights(const TileOperand& weights, std::int64_t batch);

}  // namespace ridge::ops::cuda

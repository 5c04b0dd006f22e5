// Products of few rows of 16-bit activations with narrow weights (int8, e4m3 or block-scaled), which are read as they
// are stored and converted in registers. A tile of weight lines is the left operand of the tensor cores, in registers,
// and the rows of activations are its columns. Internal to the CUDA product.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "ridge/ops/product/operands.h"
#include "ridge/tile/sm90/limits.h"

namespace ridge::ops::cuda {

inline constexpr std::int64_t max_weight_only_rows = 64;  // Rows of activations

// A box has 128 bytes of each line of a tile, swizzled: `k` elements, whose blocks have `scale_bytes` of scales.
struct WeightBox {
  static constexpr int line_bytes = 128;
  int k = 128, scale_bytes = 0;
};
constexpr WeightBox weight_box(DType weights) {
  const DTypeInfo& d = dtype_info(weights);
  const int k = WeightBox::line_bytes * 8 / d.bits;
  return {k, is_block_scaled(weights) ? k / d.block * d.scale_bits / 8 : 0};
}

// Groups of four warps of a kernel multiply rows of activations, the columns of the tensor cores. With few columns two
// blocks share a multiprocessor, so that one loads while another ends.
struct WeightOnlyBlock {
  int groups, resident_blocks, shared_bytes;
};
constexpr WeightOnlyBlock weight_only_block(int columns) {
  constexpr int reserved_bytes = 1024;  // The driver reserves so much of each block
  if (columns > 16) return {4, 1, tile::max_shared_bytes};
  return {2, 2, (tile::max_shared_bytes + reserved_bytes) / 2 - reserved_bytes};
}

// Returns how many blocks run at the same time.
constexpr std::int64_t count_weight_only_blocks(int columns, int multiprocessors) {
  return std::int64_t{multiprocessors} * weight_only_block(columns).resident_blocks;
}

// The lines and stages of a block's tile. A group multiplies 64 lines; where a tile has fewer lines than all groups,
// the groups of the same lines divide the boxes of a stage among them. `columns` is 8, 16, 32 or 64.
struct WeightOnlyTile {
  static constexpr int group_lines = 64, line_step = 16, max_lines = 256, max_stages = 12, barrier_bytes = 256;
  int lines = 0;  // A multiple of `line_step`
  constexpr int line_groups() const { return (lines + group_lines - 1) / group_lines; }
  constexpr int boxes(int columns) const { return weight_only_block(columns).groups / line_groups(); }  // Along k
  // Kernels pass boxes as constants: a device cannot read the table of dtypes, which `weight_box` does.
  constexpr int stage_k(WeightBox box, int columns) const { return boxes(columns) * box.k; }
  constexpr int weight_bytes(int columns) const { return boxes(columns) * lines * WeightBox::line_bytes; }
  constexpr int activation_bytes(WeightBox box, int columns) const { return stage_k(box, columns) * columns * 2; }
  constexpr int stage_bytes(WeightBox box, int columns) const {
    const int scale_bytes = lines * boxes(columns) * box.scale_bytes;
    return (weight_bytes(columns) + activation_bytes(box, columns) + scale_bytes + 1023) / 1024 * 1024;
  }
  // Sums have a padding of four floats for each line or row.
  constexpr int sum_bytes(int columns) const { return 4 * std::max(columns * (lines + 4), lines * (columns + 4)); }
  // Returns 0 if the tile has more lines than the groups multiply.
  constexpr int count_stages(WeightBox box, int columns) const {
    const WeightOnlyBlock block = weight_only_block(columns);
    if (line_groups() > block.groups) return 0;
    return std::min(max_stages, (block.shared_bytes - barrier_bytes - sum_bytes(columns)) / stage_bytes(box, columns));
  }
};
inline constexpr int min_stages = 2;  // With fewer, loads and products would not overlap
inline constexpr auto weight_only_tiles = [] {
  std::array<WeightOnlyTile, WeightOnlyTile::max_lines / WeightOnlyTile::line_step> out{};
  for (int i = 0; i < static_cast<int>(out.size()); ++i) out[i].lines = (i + 1) * WeightOnlyTile::line_step;
  return out;
}();
constexpr int count_columns(std::int64_t rows) {
  int columns = 8;
  while (columns < max_weight_only_rows && columns < rows) columns *= 2;
  return columns;
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

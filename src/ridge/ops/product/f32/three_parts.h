// Products of f32 operands on tensor cores, by three bf16 parts of every element. Internal to the CUDA product.
#pragma once

#include <array>
#include <vector>

#include "ridge/ops/product/operands.h"

namespace ridge::ops::cuda {

// Tile of the kernel: 128 lines of one operand and `n` of the other, and 64 elements of k in each of `stages` stages of
// the ring.
struct ThreePartsConfig {
  static constexpr int m = 128, k = 64, parts = 3, products = 6;
  int n = 0, stages = 0;
};
inline constexpr std::array three_parts_configs = {ThreePartsConfig{16, 4}, ThreePartsConfig{32, 3},
                                                   ThreePartsConfig{64, 3}, ThreePartsConfig{96, 2},
                                                   ThreePartsConfig{128, 2}};

// Returns the fastest plan of each config and orientation, the fastest first; none if the kernel does not support the
// call. MatmulPlan::config is an index of `three_parts_configs`, MatmulPlan::swapped_tile says whether the tile's 128
// lines are columns of D.
std::vector<MatmulPlan> list_three_parts_plans(const MatmulCall& call, std::size_t workspace_bytes,
                                               const DeviceNumbers& device);

// A tile and its use. With `swap`, the tile's 128 lines are columns of D.
struct ThreePartsChoice {
  int config = 0;
  bool swap = false;
  std::int64_t splits = 1;
};
// Returns the seconds from the end of the previous kernel to the end of this one, with the sum of the splits.
double predict_three_parts_seconds(const MatmulCall& call, const ThreePartsChoice& choice, const DeviceNumbers& device);

// Floats of each split's sums in the workspace: D with rows of whole groups of four.
std::int64_t three_parts_row_floats(const TileProblem& t);

}  // namespace ridge::ops::cuda

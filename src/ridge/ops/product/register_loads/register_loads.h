// Products whose operands threads load through registers: f32 on tensor cores, by three bf16 parts of every element;
// and tf32, bf16 and f16 whose lines the copy engine cannot read, or tf32 whose lines are not along k. Internal to the
// CUDA product.
#pragma once

#include <array>
#include <vector>

#include "ridge/ops/product/operands.h"

namespace ridge::ops::cuda {

// Tile of the kernel: 128 lines of one operand and `n` of the other, and 64 elements of k in each stage of the ring.
struct RegisterLoadsConfig {
  static constexpr int m = 128, k = 64;
  int n = 0;
  // Returns the tiles of 128 bytes along k of an operand's stage: the three parts of f32, or the elements themselves.
  static constexpr int tiles(DType dtype) { return dtype == DType::f32 ? 3 : k * operand_bytes(dtype) / swizzle_bytes; }
  // Returns how many pairs of these tiles are multiplied.
  static constexpr int products(DType dtype) { return dtype == DType::f32 ? 6 : tiles(dtype); }
};
inline constexpr std::array register_loads_configs = {RegisterLoadsConfig{16}, RegisterLoadsConfig{32},
                                                      RegisterLoadsConfig{64}, RegisterLoadsConfig{96},
                                                      RegisterLoadsConfig{128}};
// Stages of the ring for tiles of n lines of the other operand.
constexpr int ring_stages(int n, DType dtype) {
  if (dtype == DType::tf32) return n <= 64 ? 4 : 3;
  if (dtype != DType::f32 || n <= 16) return 4;
  return n <= 64 ? 3 : 2;
}

// How threads load four adjacent elements: in one load, as two pairs of 16-bit elements, or one by one.
enum class RegisterLoads { vectors, pairs, elements };
// Returns the fastest loads that the alignment of all lines permits.
RegisterLoads choose_register_loads(const TileOperand& x, std::int64_t batch);

// Returns the fastest plan of each config and orientation, the fastest first; none if the kernel does not support the
// call. MatmulPlan::config is an index of `register_loads_configs`, MatmulPlan::swapped_tile says whether the tile's
// 128 lines are columns of D.
std::vector<MatmulPlan> list_register_loads_plans(const MatmulCall& call, std::size_t workspace_bytes,
                                                  const DeviceNumbers& device);

// A tile and its use. With `swap`, the tile's 128 lines are columns of D.
struct RegisterLoadsChoice {
  int config = 0;
  bool swap = false;
  std::int64_t splits = 1;
};
// Returns the seconds from the end of the previous kernel to the end of this one, with the sum of the splits.
double predict_register_loads_seconds(const MatmulCall& call, const RegisterLoadsChoice& choice,
                                      const DeviceNumbers& device);

// Returns the floats of a row of a split's sums: n rounded up to a multiple of four.
std::int64_t split_row_floats(const TileProblem& t);

}  // namespace ridge::ops::cuda
